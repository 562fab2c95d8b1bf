// Memory as predicted of a step that computes in bfloat16.
#include <gtest/gtest.h>

#include "tests/harness/memory/step_memory/low_rank.h"
#include "tests/harness/memory/step_memory/points.h"
#include "tests/harness/sync/every_option.h"

namespace gradsync::test {
namespace {

using models::UnitLevers;

// Those that declare what they hold in bfloat16, with what may be done to their units.
template <typename Run>
void for_each_in_bfloat16(const Run& run) {
  int number = 0;
  for (const Subject& subject : subjects_with_units()) {
    if (subject.name == "mixtral") continue;
    for (const int every : {0, 1, 2}) {
      for (int frozen = 0; frozen <= most_frozen(subject); ++frozen) {
        run(subject, UnitLevers{{every}, static_cast<std::size_t>(frozen)}, number++);
      }
    }
  }
  for_each_low_rank([&](const UnitLevers& levers, int) { run(bert(), levers, number++); });
}

// For each subject 10 options, dealt out over 1 to 3 ranks: half of 300 points.
TEST_F(StepMemoryFormula, OfFsdpThatComputesInBfloat16IsWhatTheMeterCounts) {
  constexpr int kComputesInBfloat16 = 32;
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_in_bfloat16([&](const Subject& subject, const UnitLevers& levers, int number) {
      for (int i = 0; i < 10; ++i) {
        if (!tries(2 + 10 * number + i) || (i + number) % 3 + 1 != rank.world_size) continue;
        Point point = point_of(number + i, levers);
        point.optimizer_in_backward = point.syncs.size() == 1 && i % 2 == 0;
        expect_fsdp_as_predicted({rank.group, nullptr}, subject,
                                 kComputesInBfloat16 + (7 * number + 3 * i) % 32, point);
      }
    });
  });
}

// For each subject 8 of both kinds of gradients x both optimizers x 5 policies, likewise: half of
// 240 points.
TEST_F(StepMemoryFormula, OfDdpInBfloat16IsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_in_bfloat16([&](const Subject& subject, UnitLevers levers, int number) {
      levers.element_bytes = 2;
      for (int i = 0; i < 8; ++i) {
        if (!tries(1 + 8 * number + i) || (i + number) % 3 + 1 != rank.world_size) continue;
        Point point = point_of(number + i, levers);
        point.master_weights = i / 2 % 2 == 0;
        expect_ddp_as_predicted(rank, subject, i % 2 == 0, point);
      }
    });
  });
}

}  // namespace
}  // namespace gradsync::test
