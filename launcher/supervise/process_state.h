#pragma once
/// What the kernel tells about the threads of a process (S-23): state, where each waits, and its
/// kernel stack where we may see it. For people. Reads a few small files of /proc per thread;
/// cannot fail: what is not readable is left out.

#include <string>
#include <sys/types.h>

namespace lr::launcher {

/// One line per thread, the first ones of many; "the process has ended" when it has.
std::string DescribeThreads(pid_t pid);

}  // namespace lr::launcher
