// The sharded wrapper on the suite's own models: what it trains and every loss on the way, against
// DDP and against one process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "harness/sync/adamw.h"
#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "harness/sync/fsdp/fsdp.h"
#include "models/data.h"
#include "tests/harness/sync/ranks.h"
#include "tests/harness/sync/toy_layers.h"

namespace gradsync::test {
namespace {

using sync::FsdpGroups;
using sync::FsdpOptions;
using sync::FullyShardedDataParallel;

constexpr int kMicroBatches = 2;
// With an eps as large as gradients, what they differ by in rounding is not blown up.
constexpr sync::AdamWOptions kOptimizer{.lr = 1e-2, .eps = 1e-2};

struct Trained {
  std::map<std::string, at::Tensor> parameters;
  std::vector<double> losses;  // of this rank's micro-batches, in order
};

// Without dropout, whose masks would differ.
std::shared_ptr<models::Model> make(const std::string& name) {
  auto model = models::find_model(name).make({});
  model->eval();
  return model;
}

models::DataLoader loader_of(const models::Model& model, int rank, int world_size) {
  models::DataOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.micro_batch_size = 2;
  options.sequence_length = 8;
  if (model.vocabulary_size() > 0) options.vocabulary_size = model.vocabulary_size();
  return {options, 8};
}

// Steps that synchronize in the last micro-batch, or in each.
std::vector<double> train(sync::Wrapper& model, int rank, int world_size, int steps, bool no_sync) {
  sync::FusedAdamW optimizer(model.parameters(), kOptimizer);
  models::DataLoader data = loader_of(model.module(), rank, world_size);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < kMicroBatches; ++i) {
      std::optional<sync::NoSyncGuard> guard;
      if (no_sync && i + 1 < kMicroBatches) guard.emplace(model);
      at::Tensor loss = model.forward(data.next());
      losses.push_back(loss.item<double>());
      sync::backward(std::move(loss), kMicroBatches, nullptr);
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  return losses;
}

Trained trained_by_fsdp(RankHarness& rank, const std::string& name, const FsdpOptions& options,
                        int steps, bool no_sync) {
  FullyShardedDataParallel model(make(name), FsdpGroups{rank.group, nullptr}, options);
  Trained result;
  result.losses = train(model, rank.rank, rank.world_size, steps, no_sync);
  for (const auto& item : model.module().named_parameters()) {
    result.parameters[item.key()] = model.whole_parameter(item.key());
  }
  return result;
}

Trained trained_by_ddp(RankHarness& rank, const std::string& name, int steps) {
  const auto module = make(name);
  sync::DdpOptions options;
  options.find_unused_parameters = name.starts_with("mixtral");  // experts without a token
  sync::DistributedDataParallel model(module, rank.group, options);
  Trained result;
  result.losses = train(model, rank.rank, rank.world_size, steps, true);
  for (const auto& item : module->named_parameters()) {
    result.parameters[item.key()] = item.value().detach().clone();
  }
  return result;
}

// One process that sees the micro-batches of all ranks; `rank` says whose losses are kept. Call it
// in a rank: OpenMP's threads, which the optimizer starts, do not survive a fork.
Trained trained_alone(const RankHarness& rank, const std::string& name, int steps) {
  const auto model = make(name);
  sync::FusedAdamW optimizer(model->parameters(), kOptimizer);
  std::vector<models::DataLoader> data;
  for (int r = 0; r < rank.world_size; ++r) data.push_back(loader_of(*model, r, rank.world_size));
  Trained result;
  for (int step = 0; step < steps; ++step) {
    for (int r = 0; r < rank.world_size; ++r) {
      for (int i = 0; i < kMicroBatches; ++i) {
        at::Tensor loss = model->loss(data[r].next());
        if (r == rank.rank) result.losses.push_back(loss.item<double>());
        sync::backward(std::move(loss), kMicroBatches * rank.world_size, nullptr);
      }
    }
    for (const at::Tensor& parameter : model->parameters()) {  // as a reduction: never none
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& item : model->named_parameters()) {
    result.parameters[item.key()] = item.value().detach();
  }
  return result;
}

void expect_alike(const Trained& seen, const Trained& wanted, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(seen.losses.size(), wanted.losses.size());
  for (std::size_t i = 0; i < wanted.losses.size(); ++i) {
    EXPECT_NEAR(seen.losses[i], wanted.losses[i], tolerance) << what << ", loss " << i;
  }
  ASSERT_EQ(seen.parameters.size(), wanted.parameters.size());
  for (const auto& [name, value] : wanted.parameters) {
    const double apart = (seen.parameters.at(name) - value).abs().max().item<double>();
    EXPECT_LE(apart, tolerance) << what << ", " << name;
  }
}

// Shards end anywhere in a tensor, so that sums of more than two ranks round differently.
constexpr double kTolerance = 1e-6;

TEST(FsdpModels, TheMlpTrainsAsUnderDdpAndAlone) {
  constexpr int kSteps = 10;
  for (const int world_size : {1, 2, 3, 4}) {
    run_ranks(world_size, [](RankHarness& rank) {
      const Trained alone = trained_alone(rank, "mlp", kSteps);
      const Trained ddp = trained_by_ddp(rank, "mlp", kSteps);
      expect_alike(ddp, alone, kTolerance, "ddp");
      for (const bool no_sync : {true, false}) {
        const Trained fsdp = trained_by_fsdp(rank, "mlp", {}, kSteps, no_sync);
        expect_alike(fsdp, alone, kTolerance, "alone");
        expect_alike(fsdp, ddp, kTolerance, "ddp");
      }
    });
  }
}

TEST(FsdpModels, TheMlpTrainsTheSameWithEveryOption) {
  constexpr int kSteps = 10;
  run_ranks(2, [](RankHarness& rank) {
    const Trained ddp = trained_by_ddp(rank, "mlp", kSteps);
    for (const FsdpOptions& options : all_options()) {
      // A sum of two has one order: not even rounding differs.
      expect_alike(trained_by_fsdp(rank, "mlp", options, kSteps, true), ddp, 0, "ddp");
    }
  });
}

class FsdpLargerModels : public ::testing::TestWithParam<const char*> {};

TEST_P(FsdpLargerModels, TrainAsUnderDdpAndAlone) {
  const std::string name = GetParam();
  run_ranks(2, [&](RankHarness& rank) {
    constexpr int kSteps = 3;
    const Trained alone = trained_alone(rank, name, kSteps);
    const Trained ddp = trained_by_ddp(rank, name, kSteps);
    FsdpOptions kept;
    kept.reshard_after_forward = false;
    kept.reshard_after_backward = false;
    for (const FsdpOptions& options : {FsdpOptions{}, kept}) {
      const Trained fsdp = trained_by_fsdp(rank, name, options, kSteps, true);
      expect_alike(fsdp, alone, 1e-5, "alone");
      expect_alike(fsdp, ddp, kTolerance, "ddp");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Models, FsdpLargerModels, ::testing::Values("bert_tiny", "mixtral_tiny"));

}  // namespace
}  // namespace gradsync::test
