// Checkpointed units under every wrapper: the training, the collectives and their order are those
// without, and what runs again is a phase of its own.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/measure/memory.h"
#include "harness/sync/adamw.h"
#include "harness/sync/backward.h"
#include "harness/sync/by_hand.h"
#include "harness/sync/ddp.h"
#include "harness/sync/fsdp/fsdp.h"
#include "harness/sync/pipeline.h"
#include "models/data.h"
#include "tests/harness/sync/ranks.h"
#include "tests/harness/sync/toy_layers.h"

namespace gradsync::test {
namespace {

constexpr int kSteps = 2;
constexpr int kMicroBatches = 3;

using Wrap =
    std::function<std::unique_ptr<sync::Wrapper>(RankHarness&, std::shared_ptr<models::Model>)>;

struct Way {
  std::string name;
  Wrap wrap;
};

Way ddp_way(const std::string& name, const sync::DdpOptions& options) {
  return {name, [options](RankHarness& rank, std::shared_ptr<models::Model> model) {
            return std::make_unique<sync::DistributedDataParallel>(std::move(model), rank.group,
                                                                   options);
          }};
}

Way by_hand_way(const std::string& name, sync::Reduction reduction) {
  return {name, [reduction](RankHarness& rank, std::shared_ptr<models::Model> model) {
            return std::make_unique<sync::ByHand>(std::move(model), rank.group, reduction, nullptr);
          }};
}

std::vector<Way> ways() {
  std::vector<Way> all{
      by_hand_way("local", sync::Reduction::None),
      by_hand_way("by_hand", sync::Reduction::PerParameter),
      ddp_way("ddp", {}),
      ddp_way("ddp, small buckets", {.first_bucket_bytes = 4096, .bucket_cap_bytes = 65536}),
      ddp_way("ddp, views", {.gradient_as_bucket_view = true}),
      ddp_way("ddp, find unused", {.find_unused_parameters = true}),
      ddp_way("ddp, autocast", {.autocast_to = at::kBFloat16}),
      {"pipeline", [](RankHarness& rank, std::shared_ptr<models::Model> model) {
         return std::make_unique<sync::PipelineStage>(std::move(model), rank.group, nullptr);
       }}};
  for (const sync::FsdpOptions& options : all_options()) {
    all.push_back({fmt::format("fsdp, reshard {} {}, prefetch {}", options.reshard_after_forward,
                               options.reshard_after_backward, options.prefetch),
                   [options](RankHarness& rank, std::shared_ptr<models::Model> model) {
                     return std::make_unique<sync::FullyShardedDataParallel>(
                         std::move(model), sync::FsdpGroups{rank.group, nullptr}, options);
                   }});
  }
  return all;
}

std::shared_ptr<models::Model> make_model(const std::string& name, int every) {
  auto model = models::find_model(name).make({});
  model->set_recomputation(sync::recomputation_of(*model, {every}, nullptr));
  return model;
}

models::DataLoader loader_of(const models::Model& model, int rank, int world_size) {
  models::DataOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.micro_batch_size = 2;
  options.sequence_length = 8;
  if (model.vocabulary_size() > 0) options.vocabulary_size = model.vocabulary_size();
  return {options, kSteps * kMicroBatches};
}

struct Trained {
  std::vector<at::Tensor> losses;
  std::vector<at::Tensor> parameters;    // as the wrapper holds them
  std::vector<std::string> collectives;  // in the order issued
};

// With dropout, where the model has it; all but a step's last micro-batch under no_sync.
Trained train(RankHarness& rank, const Way& way, const std::string& name, int every) {
  const auto model = way.wrap(rank, make_model(name, every));
  sync::FusedAdamW optimizer(model->parameters(), {.lr = 1e-2});
  models::DataLoader data = loader_of(model->module(), rank.rank, rank.world_size);
  rank.ledger.settle(kTimeoutS);
  rank.ledger.clear();
  at::manual_seed(5);
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kMicroBatches; ++i) {
      rank.ledger.set_place(step, i);
      std::optional<sync::NoSyncGuard> guard;
      if (i + 1 < kMicroBatches) guard.emplace(*model);
      const at::Tensor loss = model->forward(data.next());
      result.losses.push_back(loss.detach().clone());
      sync::backward(loss, kMicroBatches, nullptr);
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  rank.ledger.settle(kTimeoutS);
  for (const comm::CommEvent& event : rank.ledger.events()) {
    result.collectives.push_back(fmt::format("{} {} in {}, {}: {}", event.op, event.bytes,
                                             event.step, event.micro_batch, event.bucket));
  }
  for (const at::Tensor& parameter : model->parameters()) {
    result.parameters.push_back(parameter.detach().clone());
  }
  return result;
}

void expect_same_bits(const std::vector<at::Tensor>& seen, const std::vector<at::Tensor>& wanted,
                      const std::string& what) {
  ASSERT_EQ(seen.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(seen[i].equal(wanted[i])) << what << ", tensor " << i;
  }
}

class CheckpointedTraining : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckpointedTraining, IsTheSameUnderEveryWrapper) {
  run_ranks(2, [](RankHarness& rank) {
    for (const Way& way : ways()) {
      // It does not say what its layers hand on.
      if (way.name == "pipeline" && std::string(GetParam()) == "mixtral_tiny") continue;
      const Trained kept = train(rank, way, GetParam(), 0);
      for (const int every : {1, 2}) {
        const std::string what = fmt::format("{}, {}, every {}", GetParam(), way.name, every);
        const Trained again = train(rank, way, GetParam(), every);
        expect_same_bits(again.losses, kept.losses, what);
        expect_same_bits(again.parameters, kept.parameters, what);
        EXPECT_EQ(again.collectives, kept.collectives) << what;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Suite, CheckpointedTraining,
                         ::testing::Values("mlp", "bert_tiny", "mixtral_tiny"),
                         [](const auto& info) { return std::string(info.param); });

using Phases = std::vector<measure::Phase>;

// Waits apart, which come and go with gathers.
Phases phases_of_a_micro_batch(RankHarness& rank, sync::Wrapper& model) {
  rank.recorder.begin_block();
  models::DataLoader data = loader_of(model.module(), rank.rank, rank.world_size);
  sync::backward(model.forward(data.next()), 1, &rank.recorder);
  rank.recorder.end_step();
  Phases phases;
  for (const measure::PhaseInterval& interval : rank.recorder.steps().front().intervals) {
    const bool is_wait = interval.phase == measure::Phase::Wait;
    if (!is_wait && (phases.empty() || phases.back() != interval.phase)) {
      phases.push_back(interval.phase);
    }
  }
  return phases;
}

// Three units run again, the last one first.
TEST(Recomputation, IsAPhaseWithinBackward) {
  using enum measure::Phase;
  run_ranks(2, [](RankHarness& rank) {
    for (const bool fsdp : {false, true}) {
      const auto module = make_model("mlp", 0);
      module->set_recomputation(sync::recomputation_of(*module, {1}, &rank.recorder));
      std::unique_ptr<sync::Wrapper> model;
      if (fsdp) {
        model = std::make_unique<sync::FullyShardedDataParallel>(
            module, sync::FsdpGroups{rank.group, nullptr},
            sync::FsdpOptions{.recorder = &rank.recorder});
      } else {
        model = std::make_unique<sync::ByHand>(module, rank.group, sync::Reduction::None,
                                               &rank.recorder);
      }
      EXPECT_EQ(phases_of_a_micro_batch(rank, *model),
                (Phases{Forward, Backward, Recompute, Backward, Recompute, Backward, Recompute,
                        Backward}));
    }
  });
}

TEST(Recomputation, TheMeterIsToldOfTheUnitAndThenOfWhereItWas) {
  measure::meter().set_place(4, 1, "backward", "outside");
  const auto module = make_model("mlp", 0);
  const models::Recomputation told = sync::recomputation_of(*module, {1}, nullptr);
  told.on_rerun(2, true);
  EXPECT_EQ(*measure::meter().place(), (measure::MemoryPlace{4, 1, "recompute", "layer2"}));
  told.on_rerun(2, false);
  EXPECT_EQ(*measure::meter().place(), (measure::MemoryPlace{4, 1, "backward", "outside"}));
}

}  // namespace
}  // namespace gradsync::test
