// Folded tensors: as large as asked, counted like any other, and hardly there.
// Covers: operator_scope.cpp.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstring>
#include <fstream>

#include "harness/base/errors.h"
#include "harness/measure/memory.h"

namespace gradsync::measure {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = kMiB << 10;

class FoldingMeter : public testing::Environment {
  void SetUp() override { meter().install({.fold_from_bytes = kMiB}); }
};
const auto* const folding_meter = testing::AddGlobalTestEnvironment(new FoldingMeter);

// Returns the memory that this process really uses: its share of pages that are mapped more than
// once. Pages of files are left out: a library's share changes when other processes come and go.
std::int64_t pss_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::int64_t bytes = 0;
  int found = 0;
  for (std::string word; rollup >> word;) {
    std::int64_t kib = 0;
    if ((word != "Pss_Anon:" && word != "Pss_Shmem:") || !(rollup >> kib)) continue;
    bytes += kib << 10;
    ++found;
  }
  EXPECT_EQ(found, 2) << "no Pss_Anon and Pss_Shmem in /proc/self/smaps_rollup";
  return bytes;
}

TEST(Folding, EightGibibytesOfTensorsTakeOneWindow) {
  const std::int64_t before = pss_bytes();
  const std::int64_t allocated_before = meter().allocated_bytes();
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 8; ++i) tensors.push_back(at::empty({kGiB}, at::kByte));
  EXPECT_EQ(meter().allocated_bytes() - allocated_before, 8 * kGiB);
  EXPECT_LT(pss_bytes() - before, 80 * kMiB);
  tensors[7].slice(0, kGiB - 100 * kMiB).fill_(7);  // real memory: a kernel runs on it
  EXPECT_EQ(tensors[0][0].item<int>(), 7);          // and one and the same
  EXPECT_LT(pss_bytes() - before, 80 * kMiB);
  tensors.clear();
  EXPECT_EQ(meter().allocated_bytes(), allocated_before);
}

TEST(Folding, EstimatesNothingUnasked) {
  EXPECT_FALSE(meter().peak_reserved_estimate_bytes().has_value());
}

TEST(Folding, SmallerTensorsAreTheirOwn) {
  const at::Tensor first = at::full({kMiB - 1}, 1, at::kByte);
  const at::Tensor second = at::full({kMiB - 1}, 2, at::kByte);
  EXPECT_EQ(first[0].item<int>(), 1);
  const at::Tensor folded_first = at::full({kMiB}, 3, at::kByte);
  const at::Tensor folded_second = at::full({kMiB}, 4, at::kByte);
  EXPECT_EQ(folded_first[0].item<int>(), 4);
}

TEST(Folding, BudgetHoldsForFoldedTensors) {
  meter().set_budget_bytes(meter().allocated_bytes() + kGiB);
  at::empty({kGiB}, at::kByte).reset();
  EXPECT_THROW(at::empty({kGiB + 1}, at::kByte), c10::OutOfMemoryError);
  meter().set_budget_bytes(std::nullopt);
}

TEST(Folding, MatrixProductsRunOnFoldedTensors) {
  const at::Tensor weight = at::empty({2048, 1024}, at::kFloat);  // 8 MiB
  const at::Tensor input = at::empty({2, 1024}, at::kFloat);
  weight.fill_(0.5);
  input.fill_(2);
  const at::Tensor output = input.matmul(weight.t());
  EXPECT_EQ(output[1][2047].item<float>(), 1024);
}

// An operator whose kernel keeps what it needs in the tensors' allocator, by each of the ways there
// are: returns whether all of it is still there at the end, in a tensor as large as its argument.
at::Tensor with_workspaces(const at::Tensor& input) {
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  void* const scratchpad = allocator.raw_allocate(kMiB);
  const c10::DataPtr pointers = allocator.allocate(kMiB);
  const at::Tensor indices = at::full({kMiB}, 3, at::kByte);
  std::memset(scratchpad, 1, kMiB);
  std::memset(pointers.get(), 2, kMiB);
  const at::Tensor output = at::zeros_like(input);
  const bool kept = static_cast<const char*>(scratchpad)[kMiB - 1] == 1 &&
                    static_cast<const char*>(pointers.get())[0] == 2 &&
                    indices.eq(3).all().item<bool>();
  allocator.raw_deallocate(scratchpad);
  return output.fill_(kept ? 1 : 0);
}

TORCH_LIBRARY(folding_test, library) {
  library.def("with_workspaces(Tensor input) -> Tensor");
  library.def("in_two(Tensor input) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(folding_test, CompositeExplicitAutograd, library) {
  library.impl("with_workspaces", &with_workspaces);
  library.impl("in_two", [](const at::Tensor& input) {
    return std::vector<at::Tensor>{at::zeros_like(input), at::ones_like(input)};
  });
}

template <typename Output>
Output call(const char* name, const at::Tensor& input) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<Output(const at::Tensor&)>()
      .call(input);
}

bool share_memory(const at::Tensor& one, const at::Tensor& other) {
  other.fill_(0);
  one.fill_(5);
  return other.flatten()[0].item<double>() == 5;
}

// oneDNN's kernels for AVX512_CORE_BF16 do so, and jump to what they find there.
TEST(Folding, AKernelKeepsWhatItWroteInsideOfAnOperator) {
  const at::Tensor input = at::empty({kMiB}, at::kFloat);
  const std::int64_t before = meter().allocated_bytes();
  const auto output = call<at::Tensor>("folding_test::with_workspaces", input);
  EXPECT_EQ(output[0].item<float>(), 1) << "the kernel's room was folded";
  EXPECT_EQ(meter().allocated_bytes() - before, 4 * kMiB);  // its own, as if never moved
  EXPECT_TRUE(share_memory(input, output)) << "what the operator returned is not folded";
}

TEST(Folding, EachOfSeveralOutputsIsFolded) {
  const at::Tensor input = at::empty({kMiB}, at::kFloat);
  const auto outputs = call<std::vector<at::Tensor>>("folding_test::in_two", input);
  ASSERT_EQ(outputs.size(), 2);
  EXPECT_TRUE(share_memory(outputs[0], outputs[1]));
}

// The backward of a graph is one call of the dispatcher, in which nodes and hooks work as outside.
TEST(Folding, WhatANodeOfTheGraphMakesIsFolded) {
  struct Observed : torch::autograd::Function<Observed> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& input) {
      return input.sum();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   const torch::autograd::variable_list&) {
      const at::Tensor first = at::zeros({kMiB}, at::kFloat);
      const at::Tensor second = at::zeros({kMiB}, at::kFloat);
      EXPECT_TRUE(share_memory(first, second));
      return {first};
    }
  };
  const at::Tensor input = at::empty({kMiB}, at::kFloat).requires_grad_();
  Observed::apply(input).backward();
  EXPECT_TRUE(share_memory(input.grad(), at::empty({kMiB}, at::kFloat)));
}

TEST(Folding, TellsWhenTheProcessHasNoMapsLeft) {
  std::size_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  constexpr std::size_t kTooManyToTry = 200'000;
  if (limit > kTooManyToTry) GTEST_SKIP() << "this machine allows " << limit << " maps";
  constexpr std::size_t kPage = 4096;
  FoldedMemory folded;
  std::vector<void*> blocks;
  blocks.reserve(limit);
  std::string message;
  try {
    while (blocks.size() < limit) blocks.push_back(folded.map(kPage));
  } catch (const EnvironmentError& error) {
    message = error.what();
  }
  for (void* const block : blocks) folded.give_back(block, kPage);
  EXPECT_THAT(message, testing::StartsWith("cannot fold 4096 bytes, which takes 1 memory maps: "));
  EXPECT_THAT(message, testing::HasSubstr(fmt::format("may have {} maps", limit)));
  EXPECT_GT(blocks.size(), limit / 2);
  // Those given back make room for a block of another size.
  void* const other = folded.map(2 * kPage);
  folded.give_back(other, 2 * kPage);
}

TEST(Folding, ABlockThatWasGivenBackIsTheNextOfItsSize) {
  FoldedMemory folded;
  void* const first = folded.map(kMiB);
  void* const second = folded.map(kMiB);
  EXPECT_NE(first, second);
  folded.give_back(first, kMiB);
  void* const smaller = folded.map(kMiB / 2);
  EXPECT_NE(smaller, first);
  EXPECT_EQ(folded.map(kMiB), first);
  folded.give_back(first, kMiB);
  folded.give_back(second, kMiB);
  folded.give_back(smaller, kMiB / 2);
}

}  // namespace
}  // namespace gradsync::measure
