// The sharded wrapper against DDP and one process, what it communicates and what it keeps.
// Covers: flat_unit.cpp, fsdp.cpp.
#include "harness/sync/fsdp/fsdp.h"
#include "harness/memory/memory_account.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "harness/base/errors.h"
#include "harness/measure/memory.h"
#include "harness/plan/strategies.h"
#include "harness/run/expectation.h"
#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "harness/sync/host_optimizer.h"
#include "harness/sync/strategies/strategy.h"
#include "tests/harness/sync/every_option.h"
#include "tests/harness/sync/ranks.h"
#include "tests/harness/sync/toy_layers.h"

namespace gradsync::test {
namespace {

using sync::FsdpGroups;
using sync::FsdpOptions;
using sync::FullyShardedDataParallel;

constexpr int kMicroBatches = 3;

using Values = std::map<std::string, at::Tensor>;

// Micro-batch `index` of `step`; only some use the branch, differently per rank.
models::Batch batch_of(int rank, int step, int index) {
  return toy_batch(rank, step * kMicroBatches + index, (rank + index) % 2 == 0);
}

std::unique_ptr<sync::Optimizer> adamw(std::vector<at::Tensor> parameters) {
  return std::make_unique<sync::FusedAdamW>(std::move(parameters), sync::AdamWOptions{.lr = 1e-2});
}

std::unique_ptr<sync::Optimizer> optimizer_of(const std::vector<at::Tensor>& parameters,
                                              memory::Offload offload) {
  if (offload == memory::Offload::None) return adamw(parameters);
  if (offload == memory::Offload::Parameters) {
    return std::make_unique<sync::HostOptimizer>(parameters, adamw);
  }
  return std::make_unique<sync::OffloadedOptimizer>(parameters, sync::HostCopies(nullptr), adamw);
}

// Runs `steps` steps of `strategy`'s kind by hand: `guard_forward`, `guard_backward` say what
// no_sync encloses in all micro-batches but the last.
void train(sync::Wrapper& model, int rank, int steps, bool guard_forward, bool guard_backward,
           bool step_in_backward = false, memory::Offload offload = memory::Offload::None) {
  const auto stepped = optimizer_of(model.parameters(), offload);
  sync::Optimizer& optimizer = *stepped;
  if (step_in_backward) {
    model.step_in_backward([&] {
      optimizer.step();
      optimizer.zero_grad();
    });
  }
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < kMicroBatches; ++i) {
      const bool inside = i + 1 < kMicroBatches;
      at::Tensor loss;
      {
        std::optional<sync::NoSyncGuard> guard;
        if (inside && guard_forward) guard.emplace(model);
        loss = model.forward(batch_of(rank, step, i));
      }
      std::optional<sync::NoSyncGuard> guard;
      if (inside && guard_backward) guard.emplace(model);
      sync::backward(std::move(loss), kMicroBatches, nullptr);
    }
    if (step_in_backward) continue;
    optimizer.step();
    optimizer.zero_grad();
  }
}

Values whole_parameters(FullyShardedDataParallel& model) {
  Values values;
  for (const auto& item : model.module().named_parameters()) {
    values[item.key()] = model.whole_parameter(item.key());
  }
  return values;
}

// What one process makes of the micro-batches of all ranks. Call it in a rank: OpenMP's threads,
// which the optimizer starts, do not survive a fork.
Values trained_alone(int world_size, int steps, const std::vector<std::string>& frozen = {}) {
  ToyLayers model(frozen);
  std::vector<at::Tensor> trained;
  std::ranges::copy_if(model.parameters(), std::back_inserter(trained),
                       [](const at::Tensor& parameter) { return parameter.requires_grad(); });
  sync::FusedAdamW optimizer(trained, {.lr = 1e-2});
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < world_size; ++rank) {
      for (int i = 0; i < kMicroBatches; ++i) {
        sync::backward(model.loss(batch_of(rank, step, i)), kMicroBatches * world_size, nullptr);
      }
    }
    for (const at::Tensor& parameter : trained) {  // as a rank's reduction: never none
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  Values values;
  for (const auto& item : model.named_parameters()) values[item.key()] = item.value().detach();
  return values;
}

void expect_close(const Values& values, const Values& wanted, double tolerance) {
  ASSERT_EQ(values.size(), wanted.size());
  for (const auto& [name, value] : wanted) {
    const double apart = (values.at(name).to(at::kFloat) - value).abs().max().item<double>();
    EXPECT_LE(apart, tolerance) << name;
  }
}

// With each of these options.
void expect_trained_as_alone(RankHarness& rank, const std::vector<FsdpOptions>& all, int steps,
                             const std::vector<std::string>& frozen = {}) {
  const Values wanted = trained_alone(rank.world_size, steps, frozen);
  for (const FsdpOptions& options : all) {
    for (const bool no_sync : {false, true}) {
      FullyShardedDataParallel model(std::make_shared<ToyLayers>(frozen),
                                     FsdpGroups{rank.group, nullptr}, options);
      train(model, rank.rank, steps, no_sync, no_sync);
      expect_close(whole_parameters(model), wanted, 2e-6);
    }
  }
}

TEST(Fsdp, TrainsAsOneProcessDoes) {
  for (const int world_size : {1, 2, 3, 4}) {
    run_ranks(world_size,
              [](RankHarness& rank) { expect_trained_as_alone(rank, {FsdpOptions{}}, 5); });
  }
}

TEST(Fsdp, TrainsTheSameWithEveryOption) {
  run_ranks(3, [](RankHarness& rank) { expect_trained_as_alone(rank, all_options(), 2); });
}

// Frozen parameters: some of a unit, all of it, or all but the first, which its input's gradient
// needs; one end of the root; and everything up to a unit, which then has no backward.
const std::vector<std::vector<std::string>> kFrozen = {
    {"layer1.w"},
    {"layer0.b", "layer2.w", "layer2.extra", "head"},
    {"layer1.w", "layer1.b", "layer1.extra"},
    {"embed", "layer0.w", "layer0.b", "layer0.extra", "layer1.w"},
    {"embed", "head", "layer0.w", "layer0.b", "layer0.extra"},
};

// Each of them with one half of the options or the other.
TEST(Fsdp, TrainsWhatIsNotFrozen) {
  run_ranks(3, [](RankHarness& rank) {
    int number = 0;
    for (const std::vector<std::string>& frozen : kFrozen) {
      std::vector<FsdpOptions> some;
      for (const FsdpOptions& options : all_options()) {
        if (tries(number++)) some.push_back(options);
      }
      expect_trained_as_alone(rank, some, 2, frozen);
    }
  });
}

// The same bits, and nothing is left of a gradient after backward.
TEST(Fsdp, TrainsTheSameWhereTheOptimizerStepsInBackward) {
  constexpr int kSteps = 3;
  run_ranks(2, [&](RankHarness& rank) {
    for (const FsdpOptions& options : all_options()) {
      const auto trained = [&](bool step_in_backward) {
        FullyShardedDataParallel model(std::make_shared<ToyLayers>(),
                                       FsdpGroups{rank.group, nullptr}, options);
        train(model, rank.rank, kSteps, true, true, step_in_backward);
        for (const at::Tensor& shard : model.parameters()) EXPECT_FALSE(shard.grad().defined());
        return whole_parameters(model);
      };
      expect_close(trained(true), trained(false), 0);
    }
  });
}

// The same bits, whatever is on the host: shards with their gradients and moments, or the moments
// and a copy of what they step.
TEST(Fsdp, TrainsTheSameWhateverIsOffloaded) {
  constexpr int kSteps = 3;
  run_ranks(2, [&](RankHarness& rank) {
    int number = 0;
    for (FsdpOptions options : all_options()) {
      const auto trained = [&](memory::Offload offload, bool in_backward) {
        options.offload_parameters = offload == memory::Offload::Parameters;
        FullyShardedDataParallel model(std::make_shared<ToyLayers>(kFrozen.front()),
                                       FsdpGroups{rank.group, nullptr}, options);
        train(model, rank.rank, kSteps, true, true, in_backward, offload);
        return whole_parameters(model);
      };
      const Values wanted = trained(memory::Offload::None, false);
      for (const bool in_backward : {false, true}) {
        for (const auto offload : {memory::Offload::OptimizerState, memory::Offload::Parameters}) {
          if (tries(number++)) expect_close(trained(offload, in_backward), wanted, 0);
        }
      }
    }
  });
}

TEST(Fsdp, SharesAndGathersWhatIsFrozenButReducesWhatIsTrained) {
  run_ranks(2, [](RankHarness& rank) {
    FullyShardedDataParallel model(
        std::make_shared<ToyLayers>(std::vector<std::string>{"layer1.w", "embed"}),
        FsdpGroups{rank.group, nullptr}, {});
    EXPECT_EQ(model.reduction_bytes(), (std::vector<std::int64_t>{80 * 4, 16 * 4, 80 * 4, 8 * 4}));
    EXPECT_EQ(model.parameters()[2].numel(), 8);  // half of b and extra
    const auto traffic = model.declared({true});
    EXPECT_EQ(traffic[0].at("all_gather").front(), 40 * 4);
    EXPECT_EQ(std::ranges::count(traffic[0].at("all_gather"), 80 * 4), 2 * 3);
  });
}

// With two ranks a sum has one order, so not even rounding may differ.
TEST(Fsdp, GradientsOfTwoRanksAreDdpsToTheBit) {
  run_ranks(2, [](RankHarness& rank) {
    const auto module = std::make_shared<ToyLayers>();
    sync::DistributedDataParallel ddp(module, rank.group, {});
    FullyShardedDataParallel fsdp(std::make_shared<ToyLayers>(), FsdpGroups{rank.group, nullptr},
                                  {});
    const auto batch = toy_batch(rank.rank, 0);
    sync::backward(ddp.forward(batch), 1, nullptr);
    sync::backward(fsdp.forward(batch), 1, nullptr);
    // The root's shard: embed and head, 40 elements, half of them here.
    const auto whole = module->named_parameters();
    const at::Tensor flat =
        at::cat({whole["embed"].grad().flatten(), whole["head"].grad().flatten()});
    EXPECT_TRUE(at::equal(fsdp.parameters()[0].grad(), flat.narrow(0, rank.rank * 20, 20)));
  });
}

TEST(Fsdp, HybridShardingTrainsTheSame) {
  constexpr int kSteps = 3;
  run_ranks(4, [&](RankHarness& rank) {
    const Values wanted = trained_alone(4, kSteps);
    FullyShardedDataParallel model(std::make_shared<ToyLayers>(), hybrid_groups(rank, 2), {});
    EXPECT_EQ(model.parameters()[1].numel(), 40);  // half of a unit's 80, not a quarter
    train(model, rank.rank, kSteps, true, true);
    expect_close(whole_parameters(model), wanted, 2e-6);
  });
}

// bfloat16 has 8 bits: a step of lr moves a weight of about 1 by its own rounding.
TEST(Fsdp, Bfloat16StaysWithinItsRounding) {
  constexpr int kSteps = 3;
  run_ranks(2, [&](RankHarness& rank) {
    const Values wanted = trained_alone(2, kSteps);
    for (const bool accumulate_in_reduce_dtype : {true, false}) {
      FsdpOptions options;
      options.param_dtype = at::kBFloat16;
      options.accumulate_in_reduce_dtype = accumulate_in_reduce_dtype;
      FullyShardedDataParallel model(std::make_shared<ToyLayers>(), FsdpGroups{rank.group, nullptr},
                                     options);
      train(model, rank.rank, kSteps, true, true);
      EXPECT_EQ(model.parameters()[0].scalar_type(), at::kFloat);
      expect_close(whole_parameters(model), wanted, 0.05);
    }
  });
}

// Runs one step and returns what the ledger says is not as declared.
std::string mismatch_of_step(RankHarness& rank, FullyShardedDataParallel& model,
                             const std::string& strategy_name) {
  const auto strategy = sync::make_strategy(strategy_name);
  sync::FusedAdamW optimizer(model.parameters(), {});
  sync::LinearWarmup scheduler(optimizer, 0, 1000);
  models::DataOptions data_options;
  data_options.micro_batch_size = 2;
  data_options.sequence_length = 4;
  models::DataLoader data(data_options, 4);
  sync::Training training{model,         optimizer,   scheduler,      data,
                          rank.recorder, rank.ledger, rank.world_size};
  rank.ledger.settle(kTimeoutS);
  rank.ledger.clear();
  rank.recorder.begin_block();
  strategy->step(training, kMicroBatches);
  rank.ledger.settle(kTimeoutS);
  const auto syncs = plan::declared_syncs("fsdp", strategy_name, kMicroBatches);
  return run::first_mismatch(model.declared(syncs), rank.ledger.events(), 0);
}

void expect_declared(RankHarness& rank, FullyShardedDataParallel& model) {
  for (const auto& entry : plan::strategies()) {
    if (entry.wrappers == std::vector<std::string>{"pipeline"}) continue;  // reduces nothing
    EXPECT_EQ(mismatch_of_step(rank, model, entry.name), "") << entry.name;
  }
}

TEST(Fsdp, CommunicatesWhatItDeclares) {
  run_ranks(2, [](RankHarness& rank) {
    std::vector<std::vector<std::string>> frozen = kFrozen;
    frozen.emplace_back();
    int number = 0;
    for (const std::vector<std::string>& names : frozen) {
      for (const FsdpOptions& options : all_options()) {
        if (!tries(number++) && !names.empty()) continue;
        FullyShardedDataParallel model(std::make_shared<ToyLayers>(names),
                                       FsdpGroups{rank.group, nullptr}, options);
        // Shows which units have a backward.
        sync::backward(model.forward(toy_batch(rank.rank, 0)), 1, nullptr);
        expect_declared(rank, model);
      }
    }
  });
}

int count(RankHarness& rank, const std::string& op) {
  rank.ledger.settle(kTimeoutS);
  int total = 0;
  for (const comm::CommEvent& event : rank.ledger.events()) total += event.op == op ? 1 : 0;
  return total;
}

// DDP decides in forward, FSDP in backward: the improper no_sync works here.
TEST(Fsdp, BackwardDecidesAndForwardDoesNot) {
  run_ranks(2, [](RankHarness& rank) {
    FullyShardedDataParallel model(std::make_shared<ToyLayers>(), FsdpGroups{rank.group, nullptr},
                                   {});
    const auto reductions_of = [&](bool guard_forward, bool guard_backward) {
      rank.ledger.settle(kTimeoutS);
      rank.ledger.clear();
      train(model, rank.rank, 1, guard_forward, guard_backward);
      return count(rank, "reduce_scatter");
    };
    constexpr int kUnits = 4;  // with the root
    EXPECT_EQ(reductions_of(false, false), kUnits * kMicroBatches);
    EXPECT_EQ(reductions_of(true, true), kUnits);
    EXPECT_EQ(reductions_of(false, true), kUnits);
    EXPECT_EQ(reductions_of(true, false), kUnits * kMicroBatches);
  });
}

std::size_t bytes_held(FullyShardedDataParallel& model) {
  std::size_t total = 0;
  std::set<const void*> seen;
  for (const at::Tensor& parameter : model.module().parameters()) {
    const auto* storage = parameter.storage().unsafeGetStorageImpl();
    if (seen.insert(storage).second) total += storage->nbytes();
  }
  return total;
}

TEST(Fsdp, FreesWhatItGathered) {
  run_ranks(2, [](RankHarness& rank) {
    constexpr std::size_t kRootBytes = 40 * 4;
    constexpr std::size_t kUnitBytes = 80 * 4;
    FsdpOptions options;
    FullyShardedDataParallel full(std::make_shared<ToyLayers>(), FsdpGroups{rank.group, nullptr},
                                  options);
    EXPECT_EQ(bytes_held(full), 0U);
    at::Tensor loss = full.forward(toy_batch(rank.rank, 0));
    EXPECT_EQ(bytes_held(full), kRootBytes);
    sync::backward(std::move(loss), 1, nullptr);
    EXPECT_EQ(bytes_held(full), 0U);
    {
      const at::NoGradGuard no_grad;
      full.forward(toy_batch(rank.rank, 0));
      EXPECT_EQ(bytes_held(full), 0U);
    }
    options.reshard_after_forward = false;
    options.reshard_after_backward = false;
    FullyShardedDataParallel kept(std::make_shared<ToyLayers>(), FsdpGroups{rank.group, nullptr},
                                  options);
    loss = kept.forward(toy_batch(rank.rank, 0));
    EXPECT_EQ(bytes_held(kept), kRootBytes + 3 * kUnitBytes);
    {
      const auto guard = kept.no_sync();
      sync::backward(std::move(loss), 1, nullptr);
    }
    EXPECT_EQ(bytes_held(kept), kRootBytes + 3 * kUnitBytes);  // for the next micro-batch
    sync::backward(kept.forward(toy_batch(rank.rank, 0)), 1, nullptr);
    EXPECT_EQ(bytes_held(kept), 0U);
  });
}

std::int64_t held(measure::MemoryCategory category) {
  return measure::bytes_of(measure::meter().allocated_by_category(), category);
}

// Why sync_each_batch brings accumulation back: what the first micro-batch of a step leaves behind.
TEST(Fsdp, NoSyncKeepsWholeGradientsAndSyncingShards) {
  run_ranks(2, [](RankHarness& rank) {
    measure::meter().install();
    constexpr std::int64_t kWholeBytes = (40 + 3 * 80) * 4;
    FullyShardedDataParallel model(std::make_shared<ToyLayers>(), FsdpGroups{rank.group, nullptr},
                                   {});
    EXPECT_EQ(held(measure::MemoryCategory::ShardedParameter), kWholeBytes / 2);
    {
      const auto guard = model.no_sync();
      sync::backward(model.forward(toy_batch(rank.rank, 0)), 2, nullptr);
    }
    EXPECT_EQ(held(measure::MemoryCategory::UnshardedGradient), kWholeBytes);
    EXPECT_EQ(held(measure::MemoryCategory::ShardedGradient), 0);
    sync::backward(model.forward(toy_batch(rank.rank, 1)), 2, nullptr);
    EXPECT_EQ(held(measure::MemoryCategory::UnshardedGradient), 0);
    EXPECT_EQ(held(measure::MemoryCategory::ShardedGradient), kWholeBytes / 2);
    EXPECT_EQ(held(measure::MemoryCategory::GatheredParameter), 0);
    EXPECT_EQ(held(measure::MemoryCategory::Communication), 0);
  });
}

TEST(Fsdp, PeaksAreTheSameByteAndABudgetIsExact) {
  run_ranks(2, [](RankHarness& rank) {
    measure::MemoryMeter& meter = measure::meter();
    meter.install();
    FullyShardedDataParallel model(std::make_shared<ToyLayers>(), FsdpGroups{rank.group, nullptr},
                                   {});
    const auto peak = [&] {
      meter.reset_peak();
      train(model, rank.rank, 2, true, true);
      return meter.peak_bytes();
    };
    const std::int64_t first = peak();
    EXPECT_EQ(peak(), first);
    meter.set_budget_bytes(first);
    EXPECT_EQ(peak(), first);
    meter.set_budget_bytes(first - 1);
    EXPECT_THROW(train(model, rank.rank, 2, true, true), c10::OutOfMemoryError);
    EXPECT_EQ(meter.last_oom()->budget_bytes, first - 1);
    meter.set_budget_bytes(std::nullopt);
  });
}

// Parameters of which none fills whole 16 bytes.
class OddSizes : public models::Model {
 public:
  OddSizes() {
    for (const std::int64_t size : {5, 7, 1, 9}) {
      odd_.push_back(register_parameter("odd" + std::to_string(size), at::ones({size})));
    }
  }
  std::vector<models::Unit> units() const override {
    return {{"all", {"odd5", "odd7", "odd1", "odd9"}}};
  }
  at::Tensor loss(const models::Batch&) override {
    return run_unit(0, at::ones({1}),
                    [&](const at::Tensor& h) {
                      at::Tensor y = h;
                      for (const at::Tensor& odd : odd_) {
                        aligned =
                            aligned && reinterpret_cast<std::uintptr_t>(odd.data_ptr()) % 16 == 0;
                        y = y + at::cumsum(odd, 0).pow(2).sum();
                      }
                      return y;
                    })
        .sum();
  }
  bool aligned = true;

 private:
  std::vector<at::Tensor> odd_;
};

TEST(Fsdp, EveryParameterIsAligned) {
  run_ranks(3, [](RankHarness& rank) {
    OddSizes alone;
    sync::FusedAdamW optimizer(alone.parameters(), {.lr = 1e-2});
    const auto module = std::make_shared<OddSizes>();
    FullyShardedDataParallel sharded(module, FsdpGroups{rank.group, nullptr}, {});
    sync::FusedAdamW sharded_optimizer(sharded.parameters(), {.lr = 1e-2});
    for (int step = 0; step < 3; ++step) {
      sync::backward(alone.loss({}), 1, nullptr);
      optimizer.step();
      optimizer.zero_grad();
      sync::backward(sharded.forward({}), 1, nullptr);
      sharded_optimizer.step();
      sharded_optimizer.zero_grad();
    }
    EXPECT_TRUE(module->aligned);
    for (const auto& item : alone.named_parameters()) {
      EXPECT_TRUE(at::allclose(sharded.whole_parameter(item.key()), item.value()));
    }
    // 8 + 8 + 4 + 9 elements, of which each of three ranks has 10.
    EXPECT_EQ(sharded.parameters()[0].numel(), 10);
    const at::Tensor moved = sharded.parameters()[0].detach();
    if (rank.rank == 2) {
      EXPECT_EQ(moved[9].item<float>(), 0);  // padding stays zero
    }
  });
}

TEST(Fsdp, RefusesAModelWithoutUnits) {
  run_ranks(2, [](RankHarness& rank) {
    try {
      const FullyShardedDataParallel model(std::make_shared<ToyModel>(),
                                           FsdpGroups{rank.group, nullptr}, {});
      FAIL() << "not refused";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("divides into units"), std::string::npos);
    }
  });
}

// One parameter of one element.
class Tiny : public models::Model {
 public:
  Tiny() { register_parameter("only", at::ones({1})); }
  std::vector<models::Unit> units() const override { return {{"all", {"only"}}}; }
  at::Tensor loss(const models::Batch&) override { return parameters()[0].sum(); }
};

TEST(Fsdp, RefusesAUnitWithFewerElementsThanRanks) {
  run_ranks(2, [](RankHarness& rank) {
    try {
      const FullyShardedDataParallel model(std::make_shared<Tiny>(),
                                           FsdpGroups{rank.group, nullptr}, {});
      FAIL() << "not refused";
    } catch (const ConfigError& error) {
      EXPECT_STREQ(error.what(),
                   "fsdp: unit 'all' has 1 elements, expected at least one for each of the 2 ranks "
                   "that share it");
    }
  });
}

}  // namespace
}  // namespace gradsync::test
