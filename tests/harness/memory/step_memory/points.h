// What a step holds at one point, by the meter and by the formula: the same, byte for byte.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/base/build_info.h"
#include "harness/measure/memory.h"
#include "harness/memory/fsdp_memory.h"
#include "harness/sync/fsdp/fsdp.h"
#include "tests/harness/memory/step_memory/subjects.h"
#include "tests/harness/sync/every_option.h"
#include "tests/harness/sync/ranks.h"

namespace gradsync::test {

// What all points have in common.
struct Point {
  models::MicroBatchShape shape;
  std::vector<bool> syncs;
  models::UnitLevers levers = {};
  bool optimizer_in_backward = false;
  bool master_weights = false;
  memory::Offload offload = memory::Offload::None;

  std::string words() const;
};

// The policies of a step: no_sync, and reduction in every micro-batch.
std::vector<std::vector<bool>> policies();

// One of the shapes and policies for each, in turn.
Point point_of(int number, const models::UnitLevers& levers = {});

// Number `bits` of 64: a bit for each option of FSDP.
sync::FsdpOptions options_of(int bits);

// Returns the inputs of the wrapper's formula for `options` and for the ranks that share the
// parameters.
memory::FsdpMemory memory_of(const sync::FsdpOptions& options, c10d::ProcessGroup& shard);

void expect_fsdp_as_predicted(const sync::FsdpGroups& groups, const Subject& subject, int bits,
                              const Point& point);

void expect_ddp_as_predicted(RankHarness& rank, const Subject& subject, bool view,
                             const Point& point, bool broadcast_buffers = true);

// Activations are declared as the kernels of one torch make them (models/footprint.h).
class StepMemoryFormula : public ::testing::Test {
  void SetUp() override {
    if (!build_info().torch_version.starts_with("2.11")) {
      GTEST_SKIP() << "declared for torch 2.11, this is " << build_info().torch_version;
    }
  }
};

// On one to three ranks, of which the first stands for all over the fake backend; on all of them
// over gloo where ctest's slow tests run it.
template <typename Run>
void on_one_to_three_ranks(const Run& run) {
  for (const int ranks : {1, 2, 3}) {
    (tries_all() ? run_ranks : run_first_of)(ranks, [&run](RankHarness& rank) {
      measure::meter().install({.leave_out_libraries = true});
      run(rank);
    });
  }
}

}  // namespace gradsync::test
