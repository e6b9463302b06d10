#include "worker/train/step_agreement.h"

namespace lr::worker {

Result<ControlWord> StepAgreement::Read() {
  if (!pending_) {
    return ControlWord::kNone;
  }
  LR_ASSIGN(const int64_t agreed, pending_->Wait());
  pending_.reset();
  const auto word = static_cast<ControlWord>(agreed);
  if (word != ControlWord::kNone) {
    inbox_.Clear(word);
  }
  return word;
}

Result<ControlWord> StepAgreement::Exchange() {
  LR_ASSIGN(const ControlWord word, Read());
  pending_ = group_.StartMax(static_cast<int64_t>(inbox_.pending()));
  return word;
}

Result<ControlWord> StepAgreement::Finish() {
  return Read();
}

}  // namespace lr::worker
