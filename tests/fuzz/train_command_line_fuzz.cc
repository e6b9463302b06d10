// libFuzzer target: lines of text as the arguments of lr-train.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "worker/train/train_command_line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)lr::worker::ParseTrainCommandLine(lr::Split(text, '\n'));
  return 0;
}
