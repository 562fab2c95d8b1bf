// Folded tensors: as large as asked, counted like any other, and hardly there.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// What this process's own memory really takes, its share of pages that are mapped more than once.
// Pages of files are left out: a library's share changes when other processes come and go.
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
