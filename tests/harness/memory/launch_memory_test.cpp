// Whether the workloads of a launch can stay beside each other, of models too large to be made
// here.
#include "harness/memory/launch_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "harness/memory/memory_prediction.h"

namespace gradsync::test {
namespace {

plan::Cell bert(const std::string& strategy) {
  plan::Cell cell;
  cell.model = "bert_base";
  cell.strategy = strategy;
  cell.accumulation_steps = 2;
  cell.micro_batch_size = 4;
  return cell;
}

launch::LaunchSpec two_ranks() {
  launch::LaunchSpec spec;
  spec.topology.nodes = 1;
  spec.topology.ranks_per_node = 2;
  return spec;
}

std::vector<plan::Trial> trials_of(const std::vector<plan::Cell>& cells) {
  std::vector<plan::Trial> trials;
  for (const plan::Cell& cell : cells) trials.emplace_back().cell = cell;
  return trials;
}

TEST(LaunchMemory, OfOneCellIsItsPeak) {
  const std::int64_t predicted =
      memory::predict_memory(bert("no_sync"), two_ranks()).memory->peak_bytes;
  EXPECT_EQ(memory::estimated_peak_bytes(bert("no_sync"), two_ranks()),
            predicted + memory::kProcessBytes);
  EXPECT_EQ(memory::together_bytes(trials_of({bert("no_sync")}), two_ranks()),
            predicted + memory::kProcessBytes);
}

// Strategies and accumulation share a workload; options of the wrapper do not.
TEST(LaunchMemory, CountsEveryWorkloadOnce) {
  plan::Cell views = bert("no_sync");
  views.gradient_as_bucket_view = true;
  plan::Cell unused = bert("no_sync");
  unused.find_unused_parameters = true;
  plan::Cell more = bert("baseline");
  more.accumulation_steps = 8;
  const std::int64_t one = memory::together_bytes(trials_of({bert("no_sync"), more}), two_ranks());
  const std::int64_t three =
      memory::together_bytes(trials_of({bert("no_sync"), more, views, unused}), two_ranks());
  constexpr std::int64_t kModel = 109'483'778 * std::int64_t{4};
  EXPECT_LT(one, memory::estimated_peak_bytes(more, two_ranks()).value() + kModel);
  EXPECT_GT(three, one + 2 * 3 * kModel);  // two more of parameters and two moments at least
}

// An option that no formula knows changes little; folded tensors and a GPU's are not the host's.
TEST(LaunchMemory, IsEstimatedWhereItIsNotPredicted) {
  plan::Cell cell = bert("no_sync");
  cell.static_graph = true;
  EXPECT_FALSE(memory::predict_memory(cell, two_ranks()).memory);
  EXPECT_EQ(memory::estimated_peak_bytes(cell, two_ranks()),
            memory::estimated_peak_bytes(bert("no_sync"), two_ranks()));
  plan::Cell single = bert("no_sync");
  single.micro_batch_size = 1;
  EXPECT_FALSE(memory::predict_memory(single, two_ranks()).memory);
  EXPECT_TRUE(memory::estimated_peak_bytes(single, two_ranks()));
  launch::LaunchSpec folded = two_ranks();
  folded.fold_from_bytes = 1 << 20;
  EXPECT_FALSE(memory::estimated_peak_bytes(cell, folded));
  launch::LaunchSpec gpu = two_ranks();
  gpu.device = "cuda";
  EXPECT_FALSE(memory::estimated_peak_bytes(cell, gpu));
}

TEST(LaunchMemory, IsNeverMoreThanTheBudget) {
  plan::Cell cell = bert("no_sync");
  cell.memory_budget_bytes = 1'000'000'000;
  EXPECT_EQ(memory::estimated_peak_bytes(cell, two_ranks()), 1'000'000'000 + memory::kProcessBytes);
}

}  // namespace
}  // namespace gradsync::test
