// Memory as predicted of a step with every combination of levers.
#include <gtest/gtest.h>

#include <vector>

#include "tests/harness/memory/step_memory/low_rank.h"
#include "tests/harness/memory/step_memory/points.h"

namespace gradsync::test {
namespace {

using models::UnitLevers;

void add_low_rank(const Subject& subject, models::CheckpointedUnits checkpointed,
                  std::vector<UnitLevers>& all) {
  if (subject.name != "bert") return;
  for (const models::LoraModules modules : kEachLoraModules) {
    all.push_back({.checkpointed = checkpointed, .lora = {4, modules}});
  }
}

// Every combination of what of a model is frozen and what is checkpointed, and what outputs these
// keep where all are.
std::vector<UnitLevers> combinations(const Subject& subject) {
  std::vector<UnitLevers> all;
  for (const int every : {0, 1, 2}) {
    for (int frozen = 0; frozen <= most_frozen(subject); ++frozen) {
      all.push_back({{every}, static_cast<std::size_t>(frozen)});
    }
    add_low_rank(subject, {every}, all);
  }
  for (const models::KeptOutputs kept :
       {models::KeptOutputs::Attention, models::KeptOutputs::Matmul}) {
    all.push_back({.checkpointed = {1, kept}});
    add_low_rank(subject, {1, kept}, all);
  }
  return all;
}

// Every combination of levers of one model under one wrapper, with one and with three micro-batches
// a step, which only the last reduces. Returns how many there are.
template <typename Run>
int for_each_combination(const Subject& subject, const Run& run) {
  int count = 0;
  for (const UnitLevers& levers : combinations(subject)) {
    for (const std::size_t micro_batches : {1, 3}) {
      Point point{{3, 33}, std::vector<bool>(micro_batches, false), levers};
      point.syncs.back() = true;
      count += run(point);
    }
  }
  return count;
}

// On two ranks: frozen units or low-rank updates x checkpointed units x 1 and 3 micro-batches x,
// under DDP, both kinds of gradients, or, under FSDP, what is resharded and whether the optimizer
// steps in backward.
TEST_F(StepMemoryFormula, OfEveryCombinationOfLeversIsWhatTheMeterCounts) {
  run_ranks(2, [](RankHarness& rank) {
    measure::meter().install();
    int cells = 0;
    for (const Subject& subject : subjects_with_units()) {
      cells += for_each_combination(subject, [&](Point point) {
        for (const bool view : {false, true}) expect_ddp_as_predicted(rank, subject, view, point);
        for (const int bits : {0, 1}) {
          for (const bool in_backward : {false, true}) {
            point.optimizer_in_backward = in_backward;
            expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits, point);
          }
        }
        return 2 + 2 * 2;
      });
    }
    const int selective = 2 + 2 * (1 + 3) + 2;
    EXPECT_EQ(cells, ((3 + (4 + 3) + 4) * 3 + selective) * 2 * 6);
  });
}

}  // namespace
}  // namespace gradsync::test
