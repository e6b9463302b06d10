// libFuzzer target: any bytes as the pickles of a torch file. What is accepted stays inside its
// storages.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "worker/pickle/tensor_pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tensors = lr::worker::ParseTensorPickle(bytes);
  if (tensors.ok()) {
    for (const lr::worker::PickledTensor& tensor : tensors->tensors) {
      if (tensor.storage >= tensors->storages.size() ||
          tensor.sizes.size() != tensor.strides.size()) {
        std::abort();
      }
    }
  }
  (void)lr::worker::ParseNamesPickle(bytes);
  const auto end = lr::worker::SkipPickle(bytes);
  if (end.ok() && *end > size) {
    std::abort();
  }
  return 0;
}
