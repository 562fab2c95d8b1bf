// A tensor's sketch is that of its numbers one by one (account/sketch.h).
#include "harness/run/tensor_sketch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace gradsync::run {
namespace {

void expect_sketch(const at::Tensor& values, std::int64_t offset, double within) {
  const at::Tensor numbers = values.to(at::kDouble).reshape({-1}).contiguous();
  const std::vector<double> elements(numbers.data_ptr<double>(),
                                     numbers.data_ptr<double>() + numbers.numel());
  const account::Sketch wanted = account::sketch_of(elements, offset);
  const account::Sketch made = sketch_numbers(tensor_sketch(values, offset));
  const double apart = std::sqrt(account::squared_distance(wanted, made));
  EXPECT_LE(apart, within * std::sqrt(account::squared_length(wanted)))
      << values.numel() << " elements from " << offset;
}

TEST(TensorSketch, IsThatOfItsElements) {
  for (const std::int64_t count : {1, 63, 64, 100, 4095, 4096, 4097, 9000, 20000}) {
    for (const std::int64_t offset : {0, 1, 70, 4090, 4096, 10000}) {
      expect_sketch(at::randn({count}), offset, 1e-6);
    }
  }
}

TEST(TensorSketch, TakesAnyShapeStrideAndFloat) {
  expect_sketch(at::randn({70, 90}).t(), 5, 1e-6);
  expect_sketch(at::randn({5000}).to(at::kBFloat16), 0, 1e-6);
  expect_sketch(at::randn({5000}).to(at::kHalf), 3, 1e-6);
  expect_sketch(at::arange(5000, at::kDouble), 0, 1e-12);
}

TEST(TensorSketch, OfManyRowsIsMadeInParts) {
  expect_sketch(at::randn({300 * account::kSketchRow + 17}), 4000, 1e-6);
}

TEST(TensorSketch, OfPartsAddUpToThatOfTheWhole) {
  const at::Tensor whole = at::randn({10000}).to(at::kDouble);
  account::Sketch sum = sketch_numbers(tensor_sketch(whole.narrow(0, 0, 3333)));
  account::add(sum, sketch_numbers(tensor_sketch(whole.narrow(0, 3333, 6667), 3333)));
  EXPECT_LT(account::squared_distance(sum, sketch_numbers(tensor_sketch(whole))), 1e-18);
}

TEST(TensorSketch, OfNothingIsZero) {
  EXPECT_EQ(account::squared_length(sketch_numbers(tensor_sketch(at::randn({0})))), 0);
}

}  // namespace
}  // namespace gradsync::run
