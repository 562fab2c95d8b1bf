// What the formulas say a step holds, against what the meter counts: peak, composition and the most
// of each category, byte for byte, for every model that tells its footprint.
// Covers: ddp_memory.cpp, fsdp_memory.cpp, bert_footprint.cpp, bert_layer_footprint.cpp,
// bert_operations.cpp, footprint.cpp, mixtral_footprint.cpp, mixtral_layer_footprint.cpp,
// mlp_footprint.cpp, paced_footprint.cpp.
#include <gtest/gtest.h>

#include <vector>

#include "tests/harness/memory/step_memory/points.h"
#include "tests/harness/sync/every_option.h"
#include "tests/harness/sync/toy_layers.h"

namespace gradsync::test {
namespace {

// Every model x 32 options, dealt out over 1 to 4 ranks, 2 shapes and 5 policies: half of 160
// points.
TEST_F(StepMemoryFormula, OfFsdpIsWhatTheMeterCounts) {
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(ranks, [](RankHarness& rank) {
      measure::meter().install();
      int number = 0;
      for (const Subject& subject : subjects()) {
        for (int bits = 0; bits < 32; ++bits, ++number) {
          if (!tries(bits) || (bits + number / 32) % 4 + 1 != rank.world_size) continue;
          expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits, point_of(number));
        }
      }
    });
  }
}

// Every model x 32 options, dealt out over 2 x 2, 3 x 1 and 1 x 2 ranks on nodes: half of 160
// points.
TEST_F(StepMemoryFormula, OfHybridShardingIsWhatTheMeterCounts) {
  struct Layout {
    int nodes;
    int ranks_per_node;
  };
  const std::vector<Layout> layouts{{2, 2}, {3, 1}, {1, 2}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    run_ranks(layouts[i].nodes * layouts[i].ranks_per_node, [&](RankHarness& rank) {
      measure::meter().install();
      const sync::FsdpGroups groups = hybrid_groups(rank, layouts[i].ranks_per_node);
      std::size_t number = 0;
      for (const Subject& subject : subjects()) {
        for (int bits = 0; bits < 32; ++bits, ++number) {
          if (!tries(bits) || number % layouts.size() != i) continue;
          expect_fsdp_as_predicted(groups, subject, bits, point_of(static_cast<int>(number)));
        }
      }
    });
  }
}

// Every model x both kinds of gradients x 5 policies on 1 to 3 ranks: half of 150 points.
TEST_F(StepMemoryFormula, OfDdpIsWhatTheMeterCounts) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [](RankHarness& rank) {
      measure::meter().install();
      int number = rank.world_size;
      for (const Subject& subject : subjects()) {
        for (const bool view : {false, true}) {
          for (std::size_t i = 0; i < policies().size(); ++i, ++number) {
            if (tries(number)) expect_ddp_as_predicted(rank, subject, view, point_of(number));
          }
        }
      }
    });
  }
}

// Those with buffers, which then go into no message: 4 points.
TEST_F(StepMemoryFormula, OfDdpThatBroadcastsNoBuffersIsWhatTheMeterCounts) {
  run_ranks(2, [](RankHarness& rank) {
    measure::meter().install();
    for (const Subject& subject : subjects()) {
      if (subject.name != "bert" && subject.name != "paced") continue;
      for (const bool view : {false, true}) {
        expect_ddp_as_predicted(rank, subject, view, point_of(1), /*broadcast_buffers=*/false);
      }
    }
  });
}

}  // namespace
}  // namespace gradsync::test
