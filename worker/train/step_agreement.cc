#include "worker/train/step_agreement.h"

namespace lr::worker {

Result<NumberedWord> StepAgreement::Read() {
  if (!pending_) {
    return NumberedWord{};
  }
  LR_ASSIGN(const int64_t agreed, pending_->Wait());
  pending_.reset();
  const NumberedWord asked = Unpack(agreed);
  if (asked.word != ControlWord::kNone) {
    inbox_.Clear(asked);
  }
  return asked;
}

Result<NumberedWord> StepAgreement::Exchange() {
  LR_ASSIGN(const NumberedWord asked, Read());
  pending_ = group_.StartMax(Pack(inbox_.request()));
  return asked;
}

Result<NumberedWord> StepAgreement::Finish() {
  return Read();
}

}  // namespace lr::worker
