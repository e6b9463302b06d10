#include "worker/control/stack_dump.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cxxabi.h>
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/blocked_signals.h"
#include "common/base/text.h"

namespace lr::worker {
namespace {

constexpr size_t kMostThreads = 128;
constexpr int kMostFrames = 64;
constexpr int kOwnFrames = 2;  ///< the handler and the kernel's return from it
constexpr std::chrono::milliseconds kLook{1};

enum class SlotState { kFree, kAsked, kWriting, kDone };

/// Where one thread's handler writes. A slot whose thread never answered stays taken: its handler
/// may still come.
struct Slot {
  std::atomic<SlotState> state{SlotState::kFree};
  std::atomic<pid_t> thread{0};
  int count = 0;
  std::array<void*, kMostFrames> frames{};
};

static_assert(std::atomic<SlotState>::is_always_lock_free &&
                  std::atomic<pid_t>::is_always_lock_free,
              "slots are written by signal handlers");

std::array<Slot, kMostThreads> slots;
std::atomic<bool> installed{false};

pid_t ThisThread() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

/// Async-signal-safe: backtrace() is, once it has been called before.
void OnStackSignal(int /*signal*/) {
  const int saved = errno;
  const pid_t self = ThisThread();
  for (Slot& slot : slots) {
    SlotState asked = SlotState::kAsked;
    if (slot.thread.load() == self &&
        slot.state.compare_exchange_strong(asked, SlotState::kWriting)) {
      slot.count = backtrace(slot.frames.data(), kMostFrames);
      slot.state.store(SlotState::kDone);
      break;
    }
  }
  errno = saved;
}

std::vector<pid_t> ListThreads() {
  std::vector<pid_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/task"), closedir);
  while (const dirent* entry = folder ? readdir(folder.get()) : nullptr) {
    if (const pid_t thread = std::atoi(entry->d_name); thread > 0) {  // NOLINT(cert-err34-c)
      threads.push_back(thread);
    }
  }
  std::ranges::sort(threads);
  return threads;
}

std::string ReadTask(pid_t thread, const char* name) {
  std::ifstream file(fmt::format("/proc/self/task/{}/{}", thread, name));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// By the mask in its status: a signal that it blocks would only stay pending.
bool BlocksSignal(pid_t thread) {
  const std::string status = ReadTask(thread, "status");
  const size_t at = status.find("SigBlk:");
  if (at == std::string::npos) {
    return false;
  }
  const uint64_t mask = std::strtoull(status.c_str() + at + 7, nullptr, 16);
  return (mask >> static_cast<unsigned>(StackSignal() - 1) & 1U) != 0;
}

Slot* AskThread(pid_t thread) {
  for (Slot& slot : slots) {
    if (slot.state.load() == SlotState::kFree) {
      slot.thread.store(thread);
      slot.state.store(SlotState::kAsked);
      if (syscall(SYS_tgkill, getpid(), thread, StackSignal()) != 0) {
        slot.state.store(SlotState::kFree);  // it has ended
        return nullptr;
      }
      return &slot;
    }
  }
  return nullptr;
}

std::string Demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? plain.get() : name;
}

/// "lr::worker::TrainStep(...)+0x1f (lr-train+0x4a31f)"
std::string FrameText(void* address) {
  Dl_info info{};
  auto* const call = static_cast<char*>(address) - 1;  // frames hold return addresses
  if (dladdr(call, &info) == 0 || info.dli_fname == nullptr) {
    return fmt::format("{}", address);
  }
  const std::string where = fmt::format("{}+{:#x}",
                                        std::filesystem::path(info.dli_fname).filename().string(),
                                        call - static_cast<char*>(info.dli_fbase));
  return info.dli_sname == nullptr ? fmt::format("?? ({})", where)
                                   : fmt::format("{}+{:#x} ({})",
                                                 Demangled(info.dli_sname),
                                                 call - static_cast<char*>(info.dli_saddr),
                                                 where);
}

std::string StackText(const Slot& slot) {
  std::string text;
  for (int i = kOwnFrames; i < slot.count; ++i) {
    text += fmt::format(
        "  #{:<2} {}\n", i - kOwnFrames, FrameText(slot.frames.at(static_cast<size_t>(i))));
  }
  return text;
}

struct ThreadStack {
  std::string names;  ///< "lr-train 4711"
  std::string text;
};

/// Equal stacks (idle pools) are told once.
void Add(std::vector<ThreadStack>& stacks, const std::string& name, std::string text) {
  const auto same = std::ranges::find(stacks, text, &ThreadStack::text);
  if (same != stacks.end()) {
    same->names += ", " + name;
  } else {
    stacks.push_back({name, std::move(text)});
  }
}

}  // namespace

void InstallStackHandler() {
  struct sigaction current {};

  sigaction(StackSignal(), nullptr, &current);
  if (installed.load() || current.sa_handler != SIG_DFL) {
    return;
  }
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // loads what it needs now, not inside a handler

  struct sigaction action {};

  action.sa_handler = OnStackSignal;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  sigaction(StackSignal(), &action, nullptr);
  installed.store(true);
}

std::string DumpStacks(std::chrono::milliseconds limit) {
  if (!installed.load()) {
    return "no native stacks: the process has no handler for them\n";
  }

  struct Asked {
    pid_t thread;
    Slot* slot;
    const char* why_not;
  };

  std::vector<Asked> asked;
  for (const pid_t thread : ListThreads()) {
    if (thread == ThisThread()) {
      continue;
    }
    const bool blocks = BlocksSignal(thread);
    asked.push_back({thread,
                     blocks ? nullptr : AskThread(thread),
                     blocks ? "it blocks the signal" : "it has ended, or there are too many"});
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto answered = [](const Asked& one) {
    return one.slot == nullptr || one.slot->state.load() == SlotState::kDone;
  };
  while (!std::ranges::all_of(asked, answered) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kLook);
  }
  std::vector<ThreadStack> stacks;
  for (Asked& one : asked) {
    const std::string name = fmt::format("{} {}", Trim(ReadTask(one.thread, "comm")), one.thread);
    if (one.slot != nullptr && answered(one)) {
      Add(stacks, name, StackText(*one.slot));
      one.slot->state.store(SlotState::kFree);
    } else {
      Add(stacks,
          name,
          fmt::format("  no stack: {}\n",
                      one.slot == nullptr ? one.why_not : "it does not answer"));
    }
  }
  std::string text;
  for (const ThreadStack& stack : stacks) {
    text += fmt::format("thread {}\n{}", stack.names, stack.text);
  }
  return text;
}

}  // namespace lr::worker
