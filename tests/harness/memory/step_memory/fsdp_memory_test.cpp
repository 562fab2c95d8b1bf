// What the memory formula says of the sharded wrapper, against what it holds, with every option and
// dtype.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "harness/comm/process_groups.h"
#include "harness/measure/memory.h"
#include "harness/sync/backward.h"
#include "harness/sync/fsdp/fsdp.h"
#include "harness/sync/strategies/strategy.h"
#include "tests/harness/memory/step_memory/points.h"
#include "tests/harness/sync/every_option.h"
#include "tests/harness/sync/ranks.h"
#include "tests/harness/sync/toy_layers.h"

namespace gradsync::test {
namespace {

using sync::FsdpGroups;
using sync::FsdpOptions;
using sync::FullyShardedDataParallel;

// Its parameters alone; gradients come from `head` first, then from the units, then from `embed`.
models::Footprint footprint_of_toy_layers() {
  models::Footprint footprint;
  footprint.other_parameters = {32, 8};
  models::PassScript unit;
  unit.backward.hold({256, 32, 32});
  unit.backward.gradients({256, 32, 32});
  for (int i = 0; i < 3; ++i) {
    footprint.units.push_back(
        {"layer", {64, 8, 8}, std::make_shared<const models::PassScript>(unit)});
  }
  footprint.after.forward.hold({models::kFloatBytes});  // the loss
  footprint.after.backward.hold({32});
  footprint.after.backward.gradients({32});
  footprint.before.backward.hold({128});
  footprint.before.backward.gradients({128});
  return footprint;
}

// Every option with every choice of dtypes.
std::vector<FsdpOptions> all_options_and_dtypes() {
  std::vector<FsdpOptions> all;
  for (FsdpOptions options : all_options()) {
    for (const auto param : {at::kFloat, at::kBFloat16}) {
      for (const auto reduce : {at::kFloat, at::kBFloat16}) {
        for (const bool in_reduce_dtype : {true, false}) {
          options.param_dtype = param;
          options.reduce_dtype = reduce;
          options.accumulate_in_reduce_dtype = in_reduce_dtype;
          all.push_back(options);
        }
      }
    }
  }
  return all;
}

// One step of `micro_batches`, and what its categories held at most; in an account of its own,
// since a thread of gloo may hold what the model before had a moment longer.
measure::CategoryBytes measured(RankHarness& rank, const FsdpOptions& options, int micro_batches,
                                bool no_sync) {
  static int account = 0;
  measure::meter().switch_account(++account);
  FullyShardedDataParallel model(std::make_shared<ToyLayers>(), FsdpGroups{rank.group, nullptr},
                                 options);
  sync::FusedAdamW optimizer(model.parameters(), {});
  measure::meter().reset_peak();
  for (int i = 0; i < micro_batches; ++i) {
    std::optional<sync::NoSyncGuard> guard;
    if (no_sync && i + 1 < micro_batches) guard.emplace(model);
    sync::backward(model.forward(toy_batch(rank.rank, i)), micro_batches, nullptr);
  }
  optimizer.step();
  return measure::meter().highest_by_category();
}

// 64 options, half on 2 ranks over gloo and half on the first of 3 over the fake backend, x 3
// accumulations x the policies there are then: no byte apart.
TEST(FsdpMemory, TheFormulaIsWhatTheWrapperHolds) {
  for (const int ranks : {2, 3}) {
    (ranks == 2 || tries_all() ? run_ranks : run_first_of)(ranks, [](RankHarness& rank) {
      measure::meter().install();
      int number = 0;
      for (const FsdpOptions& options : all_options_and_dtypes()) {
        if (!tries(2 * number++ + rank.world_size % 2)) continue;
        for (const int micro_batches : {1, 2, 3}) {
          for (const bool no_sync : {false, true}) {
            if (no_sync && micro_batches == 1) continue;  // the same step
            std::vector<bool> syncs(micro_batches, !no_sync);
            syncs.back() = true;
            auto seen = measured(rank, options, micro_batches, no_sync);
            auto said = fsdp_step_memory(memory_of(options, *rank.group), footprint_of_toy_layers(),
                                         syncs, {})
                            .highest_by_category;
            for (const auto category :
                 {measure::MemoryCategory::Activation, measure::MemoryCategory::Other}) {
              measure::bytes_of(seen, category) = 0;
              measure::bytes_of(said, category) = 0;
            }
            ASSERT_EQ(seen, said) << micro_batches << " micro-batches, no_sync " << no_sync
                                  << ", param " << options.param_dtype << ", reduce "
                                  << options.reduce_dtype << ", in reduce dtype "
                                  << options.accumulate_in_reduce_dtype << ", forward "
                                  << options.reshard_after_forward << ", backward "
                                  << options.reshard_after_backward << ", prefetch "
                                  << options.prefetch;
          }
        }
      }
    });
  }
}

// Sums nothing, and never lets go of what it was given, as a thread of gloo does for a moment.
class HoldingBackend final : public c10d::Backend {
 public:
  explicit HoldingBackend(int world_size)
      : Backend(0, world_size), fake_(comm::make_fake_backend(0, world_size)) {}

  const std::string getBackendName() const override { return "fake"; }  // NOLINT: as the base class
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return fake_->broadcast(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    held_.insert(held_.end(), tensors.begin(), tensors.end());
    return fake_->allreduce(tensors, options);
  }

 private:
  c10::intrusive_ptr<c10d::Backend> fake_;
  std::vector<at::Tensor> held_;
};

c10::intrusive_ptr<c10d::ProcessGroup> group_of(const RankHarness& rank,
                                                const c10::intrusive_ptr<c10d::Backend>& backend) {
  constexpr auto kCustom = c10d::ProcessGroup::BackendType::CUSTOM;
  auto group = c10::make_intrusive<c10d::ProcessGroup>(rank.store, 0, backend->getSize());
  group->setBackend(at::kCPU, kCustom, backend);
  group->setDefaultBackend(kCustom);
  group->setGroupName("holding");
  return group;
}

std::int64_t sharded_gradients() {
  return measure::bytes_of(measure::meter().allocated_by_category(),
                           measure::MemoryCategory::ShardedGradient);
}

// Else a peak would depend on how soon that thread runs.
TEST(FsdpMemory, AGradientSummedAcrossNodesGoesWhenItsOwnerLetsItGo) {
  run_ranks(1, [](RankHarness& rank) {
    measure::meter().install();
    const auto nodes = group_of(rank, c10::make_intrusive<HoldingBackend>(2));
    FullyShardedDataParallel model(std::make_shared<ToyLayers>(), FsdpGroups{rank.group, nodes},
                                   {});
    sync::backward(model.forward(toy_batch(0, 0)), 1, nullptr);
    EXPECT_EQ(sharded_gradients(), (40 + 3 * 80) * 4);
    for (const at::Tensor& shard : model.parameters()) shard.mutable_grad().reset();
    EXPECT_EQ(sharded_gradients(), 0);
  });
}

}  // namespace
}  // namespace gradsync::test
