#pragma once
/// The stacks of all threads of this process, taken by the process itself (S-23): each thread is
/// interrupted by a signal whose handler walks its stack; names are looked up afterwards, on the
/// thread that asked. A thread that blocks the signal, or is stuck in the kernel, is named as such.
/// Works while the step thread hangs. Cannot fail: the text says what is missing.

#include <chrono>
#include <string>

namespace lr::worker {

/// Once per process, before DumpStacks(). Without effect where somebody else handles the signal.
void InstallStackHandler();

/// Threads with equal stacks are told together; the main thread comes first. Names are those that
/// the loader knows (exported functions); others appear as module+offset, for addr2line. One caller
/// at a time; blocks for `limit` at most, and not at all for threads that answer.
std::string DumpStacks(std::chrono::milliseconds limit = std::chrono::seconds(3));

}  // namespace lr::worker
