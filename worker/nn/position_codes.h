#pragma once
/// Sinusoidal position codes: the fixed tables that tell a transformer where its tokens are.

#include <map>
#include <tuple>

#include <ATen/core/Tensor.h>

namespace lr::worker {

/// [length, dim] float32, computed in double: sine in even channels, cosine in odd ones (Vaswani et
/// al. 2017).
at::Tensor SinusoidalTable(int64_t length, int64_t dim);

/// Codes for the pixels of a feature map, one half of the channels for the row, one for the column,
/// as in DETR (Carion et al. 2020). Tables are made once per map size, device and dtype.
class PixelPositionCodes {
 public:
  /// `dim`: channels of the code, a multiple of 4.
  explicit PixelPositionCodes(int64_t dim) : dim_(dim) {}

  /// [height * width, 1, dim], pixels in row-major order.
  const at::Tensor& For(int64_t height, int64_t width, const at::TensorOptions& options);

 private:
  using Key = std::tuple<int64_t, int64_t, c10::DeviceType, int, c10::ScalarType>;

  const int64_t dim_;
  std::map<Key, at::Tensor> tables_;
};

}  // namespace lr::worker
