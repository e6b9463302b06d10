#include "launcher/supervise/lifeline.h"

#include <csignal>
#include <fcntl.h>
#include <utility>

namespace lr::launcher {

Lifeline::Lifeline(Pipe watched_below, Pipe watched_above)
    : watched_below_(std::move(watched_below)), watched_above_(std::move(watched_above)) {}

Result<Lifeline> Lifeline::Create() {
  LR_ASSIGN(Pipe below,
            MakePipe());  // the kernel gives the lowest free number to the read end first
  LR_ASSIGN(Pipe above, MakePipe());
  return Lifeline(std::move(below), std::move(above));
}

[[gnu::no_sanitize("address", "undefined", "thread")]] void Lifeline::Arm(pid_t group) const {
  for (const int watched : {watched_below_.read_end.get(), watched_above_.write_end.get()}) {
    fcntl(watched, F_SETOWN, -group);
    fcntl(watched, F_SETSIG, SIGKILL);
    fcntl(watched, F_SETFL, O_ASYNC);
  }
}

}  // namespace lr::launcher
