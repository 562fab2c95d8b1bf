#include "harness/run/tensor_sketch.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

namespace gradsync::run {
namespace {

constexpr auto kBuckets = static_cast<std::int64_t>(account::kSketchBuckets);
constexpr std::int64_t kRow = account::kSketchRow;
// Numbers of other types are copied to float32, this many rows at a time: 4 MiB.
constexpr std::int64_t kRowsAtOnce = 256;

// Returns the signs of places of the first row. The sign of element `index` is sign(row) times
// sign(place). The first element's sign is a factor of both, so row_sign() divides it out once.
at::Tensor place_signs(std::int64_t from, std::int64_t count, const at::Tensor& like) {
  std::vector<double> signs;
  for (std::int64_t i = from; i < from + count; ++i) signs.push_back(account::sketch_sign(i));
  return at::tensor(signs, at::kDouble).to(like.device());
}

double row_sign(std::int64_t row) {
  return account::sketch_sign(row * kRow) * account::sketch_sign(0);
}

at::Tensor row_signs(std::int64_t from, std::int64_t count, const at::Tensor& like) {
  std::vector<double> signs;
  for (std::int64_t i = from; i < from + count; ++i) signs.push_back(row_sign(i));
  return at::tensor(signs, at::kDouble).to(like.options());
}

// Returns the numbers of one row, from place `from` on, signed by their places and added up in
// buckets.
at::Tensor folded(const at::Tensor& numbers, std::int64_t from) {
  const at::Tensor wide = numbers.to(at::kDouble);
  const at::Tensor signed_ones = wide * place_signs(from, wide.numel(), wide);
  const std::int64_t before = from % kBuckets;
  const std::int64_t behind = (kBuckets - (before + wide.numel()) % kBuckets) % kBuckets;
  return at::constant_pad_nd(signed_ones, {before, behind}, 0).view({-1, kBuckets}).sum(0);
}

// Returns the same for whole rows, from row `first` of the parameter on.
at::Tensor folded_rows(const at::Tensor& numbers, std::int64_t first) {
  at::Tensor grid = numbers.view({-1, kRow});
  if (grid.scalar_type() != at::kDouble) grid = grid.to(at::kFloat);
  return folded(at::mv(grid.t(), row_signs(first, grid.size(0), grid)), 0);
}

}  // namespace

at::Tensor tensor_sketch(const at::Tensor& values, std::int64_t offset) {
  const at::NoGradGuard no_grad;
  const at::Tensor flat = values.detach().reshape({-1});
  at::Tensor sketch = at::zeros({kBuckets}, flat.options().dtype(at::kDouble));
  const std::int64_t count = flat.numel();
  const std::int64_t head = std::min((kRow - offset % kRow) % kRow, count);
  const std::int64_t rows = (count - head) / kRow;
  const std::int64_t tail = head + rows * kRow;
  if (head > 0) {
    sketch.add_(folded(flat.narrow(0, 0, head), offset % kRow), row_sign(offset / kRow));
  }
  for (std::int64_t row = 0; row < rows; row += kRowsAtOnce) {
    const std::int64_t some = std::min(kRowsAtOnce, rows - row);
    sketch.add_(
        folded_rows(flat.narrow(0, head + row * kRow, some * kRow), (offset + head) / kRow + row));
  }
  if (tail < count) {
    sketch.add_(folded(flat.narrow(0, tail, count - tail), 0), row_sign((offset + tail) / kRow));
  }
  return sketch;
}

account::Sketch sketch_numbers(const at::Tensor& sketch) {
  const at::Tensor numbers = sketch.to(at::kCPU, at::kDouble).contiguous();
  account::Sketch out{};
  std::copy_n(numbers.const_data_ptr<double>(), out.size(), out.begin());
  return out;
}

}  // namespace gradsync::run
