// Memory as predicted of a step in which units run again, are frozen, have updates of low rank or
// are stepped in backward, or whose attention is torch's own.
#include <gtest/gtest.h>

#include <vector>

#include "tests/harness/memory/step_memory/low_rank.h"
#include "tests/harness/memory/step_memory/points.h"
#include "tests/harness/sync/every_option.h"

namespace gradsync::test {
namespace {

using models::UnitLevers;

// Those whose units may run again x each n-th unit x 16 options, dealt out over 1 to 3 ranks: half
// of 144 points.
TEST_F(StepMemoryFormula, OfFsdpWithCheckpointedUnitsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (const int every : {1, 2, 3}) {
        for (int bits = 0; bits < 16; ++bits, ++number) {
          if (!tries(bits) || (bits + every) % 3 + 1 != rank.world_size) continue;
          expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits,
                                   point_of(number, {.checkpointed = {every}}));
        }
      }
    }
  });
}

// The same x both kinds of gradients x 5 policies: half of 90 points.
TEST_F(StepMemoryFormula, OfDdpWithCheckpointedUnitsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (const int every : {1, 2, 3}) {
        for (const bool view : {false, true}) {
          for (std::size_t i = 0; i < policies().size(); ++i, ++number) {
            if (!tries(number) || (number + every) % 3 + 1 != rank.world_size) continue;
            expect_ddp_as_predicted(rank, subject, view,
                                    point_of(number, {.checkpointed = {every}}));
          }
        }
      }
    }
  });
}

// Those whose units may run again x what of these is kept x each n-th unit x whether the first is
// frozen, once under DDP and once under FSDP, dealt out over 1 to 3 ranks.
TEST_F(StepMemoryFormula, OfUnitsThatKeepOutputsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (const models::KeptOutputs kept :
           {models::KeptOutputs::Attention, models::KeptOutputs::Matmul}) {
        for (const int every : {1, 2}) {
          for (const std::size_t frozen : {std::size_t{0}, std::size_t{1}}) {
            if (number++ % 3 + 1 != rank.world_size) continue;
            const Point point = point_of(number, {{every, kept}, frozen});
            expect_ddp_as_predicted(rank, subject, number % 2 == 0, point);
            expect_fsdp_as_predicted({rank.group, nullptr}, subject, number % 16, point);
          }
        }
      }
    }
  });
}

// A BERT's, with what updates of low rank are beside x what of them is kept: 12 points.
TEST_F(StepMemoryFormula, OfLowRankUpdatesThatKeepOutputsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const models::LoraModules modules : kEachLoraModules) {
      for (const models::KeptOutputs kept :
           {models::KeptOutputs::Attention, models::KeptOutputs::Matmul}) {
        if (number++ % 3 + 1 != rank.world_size) continue;
        const Point point =
            point_of(number, {.checkpointed = {number % 2 + 1, kept}, .lora = {3, modules}});
        expect_ddp_as_predicted(rank, bert(), number % 2 == 0, point);
        expect_fsdp_as_predicted({rank.group, nullptr}, bert(), number % 16, point);
      }
    }
  });
}

// What is frozen x what is checkpointed, for those whose units may be.
template <typename Run>
void for_each_freezing(const Run& run) {
  int number = 0;
  for (const Subject& subject : subjects_with_units()) {
    for (int frozen = 1; frozen <= most_frozen(subject); ++frozen) {
      for (const int every : {0, 2}) {
        run(subject, UnitLevers{{every}, static_cast<std::size_t>(frozen)}, number++);
      }
    }
  }
}

// For each subject 6 options, dealt out over 1 to 3 ranks: half of 96 points.
TEST_F(StepMemoryFormula, OfFsdpWithFrozenUnitsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_freezing([&](const Subject& subject, const UnitLevers& levers, int number) {
      for (int i = 0; i < 6; ++i) {
        if (!tries(1 + 6 * number + i) || (i + number) % 3 + 1 != rank.world_size) continue;
        expect_fsdp_as_predicted({rank.group, nullptr}, subject, (7 * number + 5 * i) % 32,
                                 point_of(number + i, levers));
      }
    });
  });
}

// For each subject 4 of both kinds of gradients x 5 policies, likewise: 64 points.
TEST_F(StepMemoryFormula, OfDdpWithFrozenUnitsIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_freezing([&](const Subject& subject, const UnitLevers& levers, int number) {
      for (int i = 0; i < 4; ++i) {
        if ((i + number) % 3 + 1 != rank.world_size) continue;
        expect_ddp_as_predicted(rank, subject, i % 2 == 0, point_of(number + 2 * i, levers));
      }
    });
  });
}

// For each subject 11 options, dealt out over 1 to 3 ranks: half of 99 points.
TEST_F(StepMemoryFormula, OfFsdpWithLowRankUpdatesIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_low_rank([&](const UnitLevers& levers, int number) {
      for (int i = 0; i < 11; ++i) {
        if (!tries(11 * number + i) || (i + number) % 3 + 1 != rank.world_size) continue;
        Point point = point_of(number + i, levers);
        point.optimizer_in_backward = point.syncs.size() == 1 && i % 2 == 0;
        expect_fsdp_as_predicted({rank.group, nullptr}, bert(), (3 * i + number) % 32, point);
      }
    });
  });
}

// For each subject both kinds of gradients x 5 policies, likewise: half of 90 points.
TEST_F(StepMemoryFormula, OfDdpWithLowRankUpdatesIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    for_each_low_rank([&](const UnitLevers& levers, int number) {
      for (int i = 0; i < 10; ++i) {
        if (!tries(10 * number + i) || (i + number) % 3 + 1 != rank.world_size) continue;
        expect_ddp_as_predicted(rank, bert(), i % 2 == 0, point_of(number + i, levers));
      }
    });
  });
}

// Whether the optimizer steps in backward, which is only where a step reduces once.
TEST_F(StepMemoryFormula, OfFsdpWhoseOptimizerStepsInBackwardIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (int bits = 0; bits < 32; bits += 3, ++number) {
        if (number % 3 + 1 != rank.world_size) continue;
        Point point = point_of(number, {{number % 3}, static_cast<std::size_t>(number % 2)});
        point.syncs = std::vector<bool>(static_cast<std::size_t>(number / 2 % 3 + 1), false);
        point.syncs.back() = true;
        point.optimizer_in_backward = true;
        expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits, point);
      }
    }
  });
}

// A BERT whose attention is torch's own, by what is checkpointed, frozen or updated: 72 points
// under FSDP and DDP.
TEST_F(StepMemoryFormula, OfScaledDotProductAttentionIsWhatTheMeterCounts) {
  on_one_to_three_ranks([](RankHarness& rank) {
    std::vector<UnitLevers> some;
    for (const int every : {0, 1, 2}) {
      some.push_back({.checkpointed = {every}});
      some.push_back({.checkpointed = {every}, .frozen = 1});
      some.push_back({.checkpointed = {every},
                      .lora = {3, kEachLoraModules[static_cast<std::size_t>(every)]}});
    }
    int number = 0;
    for (const UnitLevers& levers : some) {
      for (int i = 0; i < 4; ++i, ++number) {
        if (number % 3 + 1 != rank.world_size) continue;
        expect_ddp_as_predicted(rank, bert_with_sdpa(), i % 2 == 0, point_of(number, levers));
        expect_fsdp_as_predicted({rank.group, nullptr}, bert_with_sdpa(), number % 32,
                                 point_of(number + 1, levers));
      }
    }
  });
}

}  // namespace
}  // namespace gradsync::test
