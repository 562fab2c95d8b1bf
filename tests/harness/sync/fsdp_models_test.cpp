// The sharded wrapper on the suite's own models: what it trains and every loss on the way, against
// DDP and against one process.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <vector>

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

// What is trained, and how.
struct Recipe {
  std::string model;
  // With an eps as large as gradients, what they differ by in rounding is not blown up.
  sync::AdamWOptions optimizer{.lr = 1e-3, .eps = 1e-2};
  bool balanced_routing = false;
  models::LoraUpdates lora = {};
  int steps = 4;
};

struct Trained {
  std::map<std::string, at::Tensor> parameters;
  std::vector<double> losses;  // of this rank's micro-batches, in order
  at::Tensor moved;            // FSDP: by how much this rank's shards changed, one after the other
};

// Without dropout, whose masks would differ.
std::shared_ptr<models::Model> make(const Recipe& recipe) {
  models::ModelOptions options;
  options.balanced_routing = recipe.balanced_routing;
  options.lora = recipe.lora;
  auto model = models::find_model(recipe.model).make(options);
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
std::vector<double> train(sync::Wrapper& model, const RankHarness& rank, const Recipe& recipe,
                          bool no_sync) {
  sync::FusedAdamW optimizer(model.parameters(), recipe.optimizer);
  models::DataLoader data = loader_of(model.module(), rank.rank, rank.world_size);
  std::vector<double> losses;
  for (int step = 0; step < recipe.steps; ++step) {
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

at::Tensor flat_shards(const FullyShardedDataParallel& model) {
  std::vector<at::Tensor> shards;
  for (const at::Tensor& shard : model.parameters()) shards.push_back(shard.detach());
  return at::cat(shards);
}

Trained trained_by_fsdp(const RankHarness& rank, const FsdpGroups& groups, const Recipe& recipe,
                        const FsdpOptions& options, bool no_sync) {
  FullyShardedDataParallel model(make(recipe), groups, options);
  const at::Tensor start = flat_shards(model);
  Trained result;
  result.losses = train(model, rank, recipe, no_sync);
  result.moved = flat_shards(model) - start;
  for (const auto& item : model.module().named_parameters()) {
    result.parameters[item.key()] = model.whole_parameter(item.key());
  }
  return result;
}

Trained trained_by_ddp(const RankHarness& rank, const Recipe& recipe) {
  const auto module = make(recipe);
  sync::DistributedDataParallel model(module, rank.group, {});
  Trained result;
  result.losses = train(model, rank, recipe, true);
  for (const auto& item : module->named_parameters()) {
    result.parameters[item.key()] = item.value().detach().clone();
  }
  return result;
}

// One process that sees the micro-batches of all ranks; `rank` says whose losses are kept. Call it
// in a rank: OpenMP's threads, which the optimizer starts, do not survive a fork.
Trained trained_alone(const RankHarness& rank, const Recipe& recipe) {
  const auto model = make(recipe);
  std::vector<at::Tensor> trained;
  std::ranges::copy_if(model->parameters(), std::back_inserter(trained),
                       [](const at::Tensor& parameter) { return parameter.requires_grad(); });
  sync::FusedAdamW optimizer(trained, recipe.optimizer);
  std::vector<models::DataLoader> data;
  for (int r = 0; r < rank.world_size; ++r) data.push_back(loader_of(*model, r, rank.world_size));
  Trained result;
  for (int step = 0; step < recipe.steps; ++step) {
    for (int r = 0; r < rank.world_size; ++r) {
      for (int i = 0; i < kMicroBatches; ++i) {
        at::Tensor loss = model->loss(data[r].next());
        if (r == rank.rank) result.losses.push_back(loss.item<double>());
        sync::backward(std::move(loss), kMicroBatches * rank.world_size, nullptr);
      }
    }
    for (const at::Tensor& parameter : trained) {  // as a reduction: never none
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

// For a loss above 1, `tolerance` is a share.
void expect_losses_alike(const Trained& seen, const Trained& wanted, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(seen.losses.size(), wanted.losses.size());
  for (std::size_t i = 0; i < wanted.losses.size(); ++i) {
    EXPECT_NEAR(seen.losses[i], wanted.losses[i], tolerance * std::max(1.0, wanted.losses[i]))
        << what << ", loss " << i;
  }
}

void expect_alike(const Trained& seen, const Trained& wanted, double tolerance,
                  const std::string& what) {
  expect_losses_alike(seen, wanted, tolerance, what);
  ASSERT_EQ(seen.parameters.size(), wanted.parameters.size());
  for (const auto& [name, value] : wanted.parameters) {
    const double apart = (seen.parameters.at(name) - value).abs().max().item<double>();
    EXPECT_LE(apart, tolerance) << what << ", " << name;
  }
}

// Sums of three and more may be taken in another order wherever a shard or a bucket ends.
constexpr double kTolerance = 1e-6;

// A sum of two has one order: then not even rounding differs between the wrappers.
double tolerance_to_ddp(int world_size) {
  return world_size <= 2 ? 0 : kTolerance;
}

std::string words(const FsdpOptions& options, bool no_sync) {
  return fmt::format("reshard {} {}, prefetch {}, no_sync {}", options.reshard_after_forward,
                     options.reshard_after_backward, options.prefetch, no_sync);
}

class FsdpModels : public ::testing::TestWithParam<const char*> {};

// All of them of the smallest model; of the others two for each number of ranks, and all of four.
std::vector<FsdpOptions> options_for(const std::string& model, int world_size) {
  const std::vector<FsdpOptions> all = all_options();
  if (model == "mlp") return all;
  const auto i = static_cast<std::size_t>(world_size - 1);
  return {all[i], all[all.size() - 1 - i]};
}

void expect_all_alike(const Recipe& recipe, int world_size) {
  run_ranks(world_size, [&](RankHarness& rank) {
    const Trained alone = trained_alone(rank, recipe);
    const Trained ddp = trained_by_ddp(rank, recipe);
    const double to_alone = world_size == 1 ? 0 : kTolerance;
    expect_alike(ddp, alone, to_alone, "ddp");
    for (const FsdpOptions& options : options_for(recipe.model, world_size)) {
      // In half of them, and in half of those with each choice.
      const bool no_sync =
          (options.reshard_after_forward == options.reshard_after_backward) == options.prefetch;
      const Trained fsdp = trained_by_fsdp(rank, {rank.group, nullptr}, recipe, options, no_sync);
      const std::string what = words(options, no_sync);
      expect_alike(fsdp, alone, to_alone, "alone, " + what);
      expect_alike(fsdp, ddp, no_sync ? tolerance_to_ddp(world_size) : kTolerance, "ddp, " + what);
    }
  });
}

TEST_P(FsdpModels, TrainAsUnderDdpAndAlone) {
  for (const int world_size : {1, 2, 3}) expect_all_alike({GetParam()}, world_size);
}

// Weights of a layer are gathered for its input's gradient, though they have none.
TEST(FsdpModelsWithLowRankUpdates, TrainAsUnderDdpAndAlone) {
  using models::LoraModules;
  for (const int world_size : {1, 2, 3}) {
    expect_all_alike({.model = "bert_tiny", .lora = {3, LoraModules::QueryValue}}, world_size);
  }
  expect_all_alike({.model = "bert_tiny", .lora = {3, LoraModules::AllLinear}}, 2);
  expect_all_alike({.model = "bert_tiny", .lora = {3, LoraModules::Attention}}, 3);
}

// ctest's fsdp_models_slow_test.
TEST_P(FsdpModels, TrainAsUnderDdpAndAloneOnFourRanks) {
  expect_all_alike({.model = GetParam(), .steps = 10}, 4);
}

// Two nodes of two ranks.
TEST_P(FsdpModels, TrainAsUnderDdpAndAloneWithHybridSharding) {
  const Recipe recipe{GetParam()};
  run_ranks(4, [&](RankHarness& rank) {
    const FsdpGroups groups = hybrid_groups(rank, 2);
    const Trained alone = trained_alone(rank, recipe);
    const Trained ddp = trained_by_ddp(rank, recipe);
    for (const bool no_sync : {true, false}) {
      const Trained fsdp = trained_by_fsdp(rank, groups, recipe, {}, no_sync);
      expect_alike(fsdp, alone, kTolerance, "alone");
      expect_alike(fsdp, ddp, kTolerance, "ddp");
    }
  });
}

std::string name_of(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

INSTANTIATE_TEST_SUITE_P(Suite, FsdpModels, ::testing::Values("mlp", "bert_tiny", "mixtral_tiny"),
                         name_of);

// What bfloat16 may change. Its unit roundoff is 2^-8; n roundings after each other, each to the
// nearest and no two of them alike, are a random walk of relative error lambda sqrt(n) 2^-8, with
// lambda = 4 but once in a thousand times. (Higham and Mary, 2019, SIAM J. Sci. Comput. 41(5).)
double error_of(int roundings) {
  constexpr double kLambda = 4;
  return kLambda * std::sqrt(roundings) * 0x1p-8;
}

// Beside gradients below 1 an eps of 10 makes of AdamW a sum of them: what training moved is then
// off by the share that gradients are off, however many steps there were.
Recipe linear_recipe(const std::string& model) {
  return {model, {.lr = 0.05, .eps = 10, .weight_decay = 0}, model.starts_with("mixtral")};
}

// Holds what `options` make of a model against float32.
void expect_within(const RankHarness& rank, const FsdpGroups& groups, const Recipe& recipe,
                   const FsdpOptions& options, int roundings) {
  const Trained wanted = trained_by_fsdp(rank, groups, recipe, {}, true);
  const auto far = wanted.moved.norm().item<double>();
  EXPECT_GT(far, 0);
  for (const bool no_sync : {true, false}) {
    const Trained seen = trained_by_fsdp(rank, groups, recipe, options, no_sync);
    const std::string what = fmt::format("{}, no_sync {}", recipe.model, no_sync);
    const double bound = error_of(roundings);
    EXPECT_LE((seen.moved - wanted.moved).norm().item<double>(), bound * far) << what;
    expect_losses_alike(seen, wanted, bound, what);
  }
}

// The gradient alone is rounded: with each micro-batch that it adds up, and with each rank.
TEST(FsdpBfloat16, ReducedGradientsStayWithinTheirRoundings) {
  for (const int world_size : {2, 4}) {
    run_ranks(world_size, [](RankHarness& rank) {
      const FsdpGroups groups =
          rank.world_size == 4 ? hybrid_groups(rank, 2) : FsdpGroups{rank.group, nullptr};
      for (const char* model : {"mlp", "mixtral_tiny"}) {
        for (const bool in_reduce_dtype : {true, false}) {
          FsdpOptions options;
          options.reduce_dtype = at::kBFloat16;
          options.accumulate_in_reduce_dtype = in_reduce_dtype;
          expect_within(rank, groups, linear_recipe(model), options,
                        kMicroBatches + rank.world_size);
        }
      }
    });
  }
}

// Kernels one after the other from tokens to loss, each of which rounds what it makes, as its
// gradient does in backward, and as its weight was rounded when it was gathered. A BERT's layer has
// 12: projection, scores, softmax, context, projection, sum, norm, projection, gelu, projection,
// sum, norm; before them two sums and a norm, after them two projections, tanh and loss. A
// Mixtral's has 16: norm, projection, rotation, scores, softmax, context, projection, sum, norm,
// projection, silu, product, projection, weighting, sum over experts, sum; after them norm,
// projection and loss.
int kernels_of(const std::string& model) {
  constexpr int kLayers = 2;
  return model == "bert_tiny" ? kLayers * 12 + 7 : kLayers * 16 + 3;
}

// In float32 a router of a Mixtral that is not balanced chooses other experts than in bfloat16.
TEST(FsdpBfloat16, ComputingStaysWithinItsRoundings) {
  run_ranks(2, [](RankHarness& rank) {
    for (const char* model : {"bert_tiny", "mixtral_tiny"}) {
      for (const auto reduce : {at::kFloat, at::kBFloat16}) {
        FsdpOptions options;
        options.param_dtype = at::kBFloat16;
        options.reduce_dtype = reduce;
        expect_within(rank, {rank.group, nullptr}, linear_recipe(model), options,
                      3 * kernels_of(model) + kMicroBatches + rank.world_size);
      }
    }
  });
}

}  // namespace
}  // namespace gradsync::test
