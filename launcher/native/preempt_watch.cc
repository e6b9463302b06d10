#include "launcher/native/preempt_watch.h"

#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>

#include "launcher/supervise/process.h"

namespace lr::launcher {
namespace {

constexpr size_t kLongestLine = 4096;

class WatchImpl final : public PreemptWatch {
 public:
  WatchImpl(boost::asio::io_context& loop, Events events)
      : events_(std::move(events)), output_(loop), end_(loop), buffer_(kLongestLine) {}

  ~WatchImpl() override {
    if (pid_ > 0) {
      kill(-pid_, SIGKILL);  // it leads its session; the sweep finds what left that
    }
  }

  Status Run(const std::string& command, Variables environment) {
    LR_ASSIGN(Pipe pipe, MakePipe());
    const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    LR_ASSIGN(SpawnedProcess process,
              Spawn({.executable = "/bin/sh",
                     .argv = {"sh", "-c", command},
                     .environment = std::move(environment),
                     .stdin_fd = nothing.get(),
                     .stdout_fd = pipe.write_end.get(),
                     .stderr_fd = STDERR_FILENO}));
    pid_ = process.pid;
    lifeline_ = std::move(process.lifeline);
    output_.assign(pipe.read_end.Release());
    end_.assign(process.pidfd.Release());
    ReadLine();
    AwaitEnd();
    return {};
  }

 private:
  void ReadLine() {
    boost::asio::async_read_until(
        output_,
        buffer_,
        '\n',
        [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error, size_t) {
          if (error || alive.expired()) {
            return;  // its end tells the rest
          }
          std::string line;
          std::getline(std::istream(&buffer_), line);
          events_.notice(ReadNotice(line));
          if (!alive.expired()) {
            ReadLine();
          }
        });
  }

  void AwaitEnd() {
    end_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
                      if (!error && !alive.expired()) {
                        OnEnd();
                      }
                    });
  }

  void OnEnd() {
    siginfo_t info{};
    const pid_t pid = std::exchange(pid_, -1);
    const bool known = waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) == 0;
    if (!known || info.si_pid == 0) {
      return events_.blind("the command of --preempt-watch is gone");
    }
    const bool exited = info.si_code == CLD_EXITED;
    const WatchEnd end = JudgeWatchEnd(exited ? info.si_status : 0, exited ? 0 : info.si_status);
    end.notice ? events_.notice({end.text, std::nullopt}) : events_.blind(end.text);
  }

  const Events events_;
  boost::asio::posix::stream_descriptor output_;
  boost::asio::posix::stream_descriptor end_;
  boost::asio::streambuf buffer_;
  pid_t pid_ = -1;
  Lifeline lifeline_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

Result<std::unique_ptr<PreemptWatch>> PreemptWatch::Start(boost::asio::io_context& loop,
                                                          const std::string& command,
                                                          Variables environment,
                                                          Events events) {
  auto watch = std::make_unique<WatchImpl>(loop, std::move(events));
  LR_TRY(watch->Run(command, std::move(environment)).WithContext("--preempt-watch"));
  return std::unique_ptr<PreemptWatch>(std::move(watch));
}

}  // namespace lr::launcher
