// Position tables, rounded as LeRobot rounds them: tokens in double, pixels in float32. Thread:
// step thread.
#include "worker/nn/position_codes.h"

#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

namespace lr::worker {

namespace {

constexpr double kTemperature = 10000.0;

/// Codes of 1 … length scaled to a full turn: [length, dim].
at::Tensor AxisTable(int64_t length, int64_t dim) {
  constexpr double kEpsilon = 1e-6;
  const at::Tensor place = at::arange(1, length + 1, at::kFloat);
  const at::Tensor angle = place / (place[-1] + kEpsilon) * (2.0 * std::numbers::pi);
  const at::Tensor exponent =
      at::arange(dim, at::kFloat).div(2, "floor") * 2.0 / static_cast<double>(dim);
  const at::Tensor phase = angle.unsqueeze(1) / at::pow(kTemperature, exponent);
  using at::indexing::Slice;
  return at::stack({phase.index({Slice(), Slice(0, at::indexing::None, 2)}).sin(),
                    phase.index({Slice(), Slice(1, at::indexing::None, 2)}).cos()},
                   /*dim=*/2)
      .flatten(1);
}

}  // namespace

at::Tensor SinusoidalTable(int64_t length, int64_t dim) {
  at::Tensor table = at::empty({length, dim}, at::kFloat);
  auto cell = table.accessor<float, 2>();
  for (int64_t place = 0; place < length; ++place) {
    for (int64_t j = 0; j < dim; ++j) {
      const double exponent = static_cast<double>(2 * (j / 2)) / static_cast<double>(dim);
      const double angle = static_cast<double>(place) / std::pow(kTemperature, exponent);
      cell[place][j] = static_cast<float>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

const at::Tensor& PixelPositionCodes::For(int64_t height,
                                          int64_t width,
                                          const at::TensorOptions& options) {
  const c10::Device device = options.device();
  const Key key{
      height, width, device.type(), device.index(), c10::typeMetaToScalarType(options.dtype())};
  at::Tensor& table = tables_[key];
  if (!table.defined()) {
    const int64_t half = dim_ / 2;
    const at::Tensor rows = AxisTable(height, half).unsqueeze(1).expand({height, width, half});
    const at::Tensor columns = AxisTable(width, half).unsqueeze(0).expand({height, width, half});
    table = at::cat({rows, columns}, 2).view({height * width, 1, dim_}).to(options);
  }
  return table;
}

}  // namespace lr::worker
