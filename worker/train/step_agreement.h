#pragma once
/// How all ranks come to act on one request at one step (design decision 4): each rank folds its
/// pending control word into an 8-byte maximum that is started at a step and read at the next step
/// boundary, so that it costs no stall. Step thread; collective in the order of the steps.

#include <optional>

#include "common/base/status.h"
#include "worker/comm/communicator.h"
#include "worker/control/control.h"

namespace lr::worker {

class StepAgreement {
 public:
  StepAgreement(Communicator& group, ControlInbox& inbox) : group_(group), inbox_(inbox) {}

  /// At the end of every step, on every rank: the word that all ranks agreed on since the last call
  /// (started one step ago), and starts the next agreement. What is returned is taken out of the
  /// inbox.
  Result<NumberedWord> Exchange();

  /// After the last step: waits for the agreement in flight.
  Result<NumberedWord> Finish();

 private:
  Result<NumberedWord> Read();

  Communicator& group_;
  ControlInbox& inbox_;
  std::optional<PendingMax> pending_;
};

}  // namespace lr::worker
