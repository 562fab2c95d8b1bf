// Parameters gathered and gradients reduced in other types than they are stored in, against
// fully_shard with its MixedPrecisionPolicy, and DDP with parameters in bfloat16, with and without
// float32 masters, and under autocast: losses, gradients and collectives of steps. What ran there:
// mixed_precision_oracle.py.   Covers: flat_unit.cpp, fsdp.cpp, autocast.cpp.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/memory/flat_layout.h"
#include "harness/sync/adamw.h"
#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "harness/sync/fsdp/fsdp.h"
#include "tests/harness/sync/ranks.h"
#include "tests/harness/sync/toy_layers.h"
#include "tests/models/oracle.h"

namespace gradsync::test {
namespace {

using nlohmann::json;
using sync::FsdpOptions;
using sync::FullyShardedDataParallel;

// What differs is how a fused product and sum round.
constexpr double kTolerance = 1e-6;
// And the share of the largest that rounding to bfloat16 takes, once more for each gradient that is
// added: torch rounds it first, this rounds the sum.
constexpr double kOfRounding = 1.0 / 128;

at::ScalarType dtype_of(const json& name) {
  return name == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

// As the oracle counts: operations by name, with their number and bytes; not the broadcasts with
// which the Reducer rebuilds its buckets.
json counted(RankHarness& rank) {
  rank.ledger.settle(kTimeoutS);
  json counts = json::object();
  for (const comm::CommEvent& event : rank.ledger.events()) {
    if (std::string(event.op) == "broadcast") continue;
    if (!counts.contains(event.op)) counts[event.op] = {{"count", 0}, {"bytes", 0}};
    json& one = counts[event.op];
    one["count"] = one["count"].get<int>() + 1;
    one["bytes"] = one["bytes"].get<std::int64_t>() + event.bytes;
  }
  return counts;
}

// The gradients of a unit's parameters, one after the other as the unit lays them out.
at::Tensor flat(const json& gradients, const std::vector<std::string>& names,
                std::int64_t element_bytes, std::int64_t ranks) {
  std::vector<at::Tensor> parts;
  std::vector<std::int64_t> sizes;
  for (const std::string& name : names) {
    parts.push_back(at::tensor(gradients[name].get<std::vector<double>>(), at::kFloat));
    sizes.push_back(parts.back().numel());
  }
  const memory::FlatLayout layout = memory::flat_layout(sizes, element_bytes, ranks);
  at::Tensor whole = at::zeros({layout.padded});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    whole.narrow(0, layout.offsets[i], sizes[i]).copy_(parts[i]);
  }
  return whole;
}

// The root's, then those of the units in their order, as the wrapper has its shards.
std::vector<std::vector<std::string>> names_by_shard(const models::Model& model) {
  std::vector<std::vector<std::string>> names{{"embed", "head"}};
  for (const models::Unit& unit : model.units()) names.push_back(unit.parameters);
  return names;
}

// `rounding`: how far they may be from those wanted, by the largest; 0: by nothing.
void expect_gradients_of(const FullyShardedDataParallel& model, const ToyLayers& module,
                         const json& wanted, const RankHarness& rank, std::int64_t element_bytes,
                         double rounding) {
  const auto names = names_by_shard(module);
  ASSERT_EQ(model.parameters().size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const at::Tensor ours = model.parameters()[i].grad();
    EXPECT_EQ(ours.scalar_type(), at::kFloat);
    const at::Tensor theirs = flat(wanted, names[i], element_bytes, rank.world_size)
                                  .narrow(0, rank.rank * ours.numel(), ours.numel());
    const auto largest = theirs.abs().max().item<double>();
    EXPECT_GT(largest, 0);
    EXPECT_LE(largest_difference(ours, theirs), kTolerance + rounding * largest)
        << names[i].front();
  }
}

// `expect_gradients(wanted)` before each step.
template <typename ExpectGradients>
void replay(RankHarness& rank, const json& answers, const json& scenario, sync::Wrapper& model,
            sync::Optimizer& optimizer, const ExpectGradients& expect_gradients) {
  const json& seen = scenario["ranks"][static_cast<std::size_t>(rank.rank)];
  const int micro_batches = answers["micro_batches"];
  for (std::size_t number = 0; number < seen["losses"].size(); ++number) {
    SCOPED_TRACE(fmt::format("micro-batch {}", number));
    const bool last = (static_cast<int>(number) + 1) % micro_batches == 0;
    std::optional<sync::NoSyncGuard> guard;
    if (scenario["no_sync"].get<bool>() && !last) guard.emplace(model);
    rank.ledger.clear();
    at::Tensor loss = model.forward(toy_batch(rank.rank, static_cast<int>(number)));
    EXPECT_NEAR(loss.item<double>(), seen["losses"][number].get<double>(), kTolerance);
    sync::backward(std::move(loss), micro_batches, nullptr);
    EXPECT_EQ(counted(rank), seen["collectives"][number]);
    if (!last) continue;
    expect_gradients(seen["gradients"][number / static_cast<std::size_t>(micro_batches)]);
    optimizer.step();
    optimizer.zero_grad();
  }
}

void replay_fully_shard(RankHarness& rank, const json& answers, const json& scenario) {
  FsdpOptions options;
  options.param_dtype = dtype_of(scenario["param_dtype"]);
  options.reduce_dtype = dtype_of(scenario["reduce_dtype"]);
  const auto module = std::make_shared<ToyLayers>();
  FullyShardedDataParallel model(module, {rank.group, nullptr}, options);
  sync::FusedAdamW optimizer(model.parameters(), {.lr = answers["lr"]});
  const auto bytes = static_cast<std::int64_t>(c10::elementSize(options.param_dtype));
  const bool rounds_first = answers["rounds_first"].get<bool>() &&
                            scenario["no_sync"].get<bool>() && options.param_dtype == at::kFloat &&
                            options.reduce_dtype != at::kFloat;
  const double rounding = rounds_first ? answers["micro_batches"].get<int>() * kOfRounding : 0;
  replay(rank, answers, scenario, model, optimizer, [&](const json& wanted) {
    expect_gradients_of(model, *module, wanted, rank, bytes, rounding);
  });
}

void replay_ddp(RankHarness& rank, const json& answers, const json& scenario) {
  const auto module = std::make_shared<ToyLayers>();
  const std::string way = scenario["way"];
  const bool casts = way == "autocast";
  const at::ScalarType stored = casts ? at::kFloat : at::kBFloat16;
  for (at::Tensor& parameter : module->parameters()) {
    parameter.set_data(parameter.detach().to(stored));
  }
  sync::DdpOptions ddp;
  if (casts) ddp.autocast_to = at::kBFloat16;
  sync::DistributedDataParallel model(module, rank.group, ddp);
  const sync::AdamWOptions options{.lr = answers["lr"]};
  std::unique_ptr<sync::Optimizer> optimizer;
  if (way == "master_weights") {
    optimizer = std::make_unique<sync::MasterWeightAdamW>(model.parameters(), options);
  } else {
    optimizer = std::make_unique<sync::FusedAdamW>(model.parameters(), options);
  }
  replay(rank, answers, scenario, model, *optimizer, [&](const json& wanted) {
    for (const auto& parameter : module->named_parameters()) {
      const at::Tensor ours = parameter.value().grad().flatten();
      EXPECT_EQ(ours.scalar_type(), stored);
      const auto theirs =
          at::tensor(wanted[parameter.key()].get<std::vector<double>>(), at::kFloat);
      EXPECT_EQ(largest_difference(ours.to(at::kFloat), theirs), 0) << parameter.key();
    }
  });
}

class MixedPrecisionOracle : public testing::Test {
 protected:
  void SetUp() override {
    // Importing torch takes seconds: ask once.
    if (!answers_) {
      answers_ = std::make_unique<Answers>("mixed_precision_oracle.py", "", "harness/sync");
    }
    if (answers_->status == kOracleIsMissing) GTEST_SKIP() << answers_->log;
    ASSERT_EQ(answers_->status, 0) << answers_->log;
  }
  static void TearDownTestSuite() { answers_.reset(); }

  // Each scenario under `wrapper`, in steps of 3 micro-batches.
  template <typename Replay>
  void on_two_ranks(const char* wrapper, std::size_t count, const Replay& replay) const {
    const json& scenarios = answers_->values[wrapper];
    ASSERT_EQ(scenarios.size(), count);
    run_ranks(2, [&](RankHarness& rank) {
      for (json scenario : scenarios) {
        const json whole = scenario;
        scenario.erase("ranks");
        SCOPED_TRACE(scenario.dump());
        replay(rank, answers_->values, whole);
      }
    });
  }

 private:
  static std::unique_ptr<Answers> answers_;
};

std::unique_ptr<Answers> MixedPrecisionOracle::answers_;

// 4 pairs of types x accumulation with and without no_sync.
TEST_F(MixedPrecisionOracle, StepsUnderFsdpAreThoseOfFullyShard) {
  on_two_ranks("fully_shard", 8, replay_fully_shard);
}

// Bfloat16 with and without masters, and autocast, x accumulation with and without no_sync.
TEST_F(MixedPrecisionOracle, StepsUnderDdpAreThoseOfDdp) {
  on_two_ranks("ddp", 6, replay_ddp);
}

}  // namespace
}  // namespace gradsync::test
