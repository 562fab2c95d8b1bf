// Memory as predicted of a step of which something is offloaded, on the device and on the host.
// Covers: copies.cpp, host_optimizer.cpp.
#include <gtest/gtest.h>

#include "tests/harness/memory/step_memory/points.h"
#include "tests/harness/sync/every_option.h"
#include "tests/harness/sync/toy_layers.h"

namespace gradsync::test {
namespace {

using memory::Offload;

// What is offloaded x every model with units x 32 options, dealt out over 1 to 3 ranks, with what
// is checkpointed, frozen and stepped in backward: half of 192 points.
TEST_F(StepMemoryFormula, OfFsdpThatOffloadsIsWhatTheMeterCountsOnDeviceAndHost) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (const Offload offload : {Offload::OptimizerState, Offload::Parameters}) {
        for (int bits = 0; bits < 32; ++bits, ++number) {
          if (!tries(number) || (number + number / 3) % 3 + 1 != rank.world_size) continue;
          Point point = point_of(number, {{number % 3}, static_cast<std::size_t>(number / 3 % 2)});
          point.offload = offload;
          point.optimizer_in_backward = number % 10 == 0 && point.syncs.size() == 1;
          expect_fsdp_as_predicted({rank.group, nullptr}, subject, bits, point);
        }
      }
    }
  });
}

// Low-rank updates, whose units are frozen in part, and shards on two nodes: 32 points.
TEST_F(StepMemoryFormula, OfHybridShardingThatOffloadsIsWhatTheMeterCounts) {
  run_ranks(4, [](RankHarness& rank) {
    measure::meter().install();
    const sync::FsdpGroups groups = hybrid_groups(rank, 2);
    for (int bits = 0; bits < 32; ++bits) {
      Point point = point_of(bits, {.lora = {bits % 2 == 0 ? 0 : 3}});
      point.offload = bits % 3 == 0 ? Offload::OptimizerState : Offload::Parameters;
      expect_fsdp_as_predicted(groups, bert(), bits, point);
    }
  });
}

// Every model with units x both kinds of gradients x 5 policies x frozen or not, on 1 to 3 ranks:
// 60 points.
TEST_F(StepMemoryFormula, OfDdpWhoseOptimizerIsOffloadedIsWhatTheMeterCountsOnDeviceAndHost) {
  on_one_to_three_ranks([](RankHarness& rank) {
    int number = 0;
    for (const Subject& subject : subjects_with_units()) {
      for (int i = 0; i < 20; ++i, ++number) {
        if (number % 3 + 1 != rank.world_size) continue;
        Point point = point_of(number, {{0}, static_cast<std::size_t>(i / 10)});
        point.offload = Offload::OptimizerState;
        expect_ddp_as_predicted(rank, subject, i % 2 == 0, point);
      }
    }
  });
}

}  // namespace
}  // namespace gradsync::test
