// One rank alone, over the fake backend, against the same rank among real ones over gloo: what it
// communicates, what it holds, and a model that was never there as a whole.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "harness/measure/memory.h"
#include "harness/sync/ddp.h"
#include "harness/sync/fsdp/fsdp.h"
#include "harness/sync/strategies/strategy.h"
#include "tests/harness/sync/ranks.h"

namespace gradsync::test {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using measure::MemoryCategory;

struct Seen {
  std::vector<std::pair<std::string, std::int64_t>> collectives;  // operation and bytes, in order
  measure::CategoryBytes highest;
  std::vector<std::int64_t> reductions;
};

// Returns the same world without the other ranks.
Group fake_group(const RankHarness& of) {
  comm::GroupOptions options = of.options;
  options.backend = "fake";
  return comm::make_process_group(of.store, options, of.ledger);
}

std::shared_ptr<models::Model> mixtral() {
  models::ModelOptions options;
  options.balanced_routing = true;  // so that sizes do not depend on values
  return models::find_model("mixtral_tiny").make(options);
}

std::unique_ptr<sync::Wrapper> wrapped(const std::string& wrapper, const Group& group) {
  if (wrapper == "ddp") {
    return std::make_unique<sync::DistributedDataParallel>(mixtral(), group, sync::DdpOptions{});
  }
  return std::make_unique<sync::FullyShardedDataParallel>(mixtral(), sync::FsdpGroups{group, {}},
                                                          sync::FsdpOptions{});
}

// Two steps of three micro-batches; the second one's peaks.
Seen train(RankHarness& rank, const Group& group, const std::string& wrapper,
           const std::string& strategy_name) {
  constexpr int kMicroBatches = 3;
  rank.ledger.settle(kTimeoutS);
  rank.ledger.clear();
  const auto model = wrapped(wrapper, group);
  const auto strategy = sync::make_strategy(strategy_name);
  sync::FusedAdamW optimizer(model->parameters(), {});
  sync::LinearWarmup scheduler(optimizer, 0, 1000);
  models::DataOptions data_options;
  data_options.micro_batch_size = 2;
  data_options.sequence_length = 8;
  data_options.vocabulary_size = model->module().vocabulary_size();
  models::DataLoader data(data_options, 4);
  sync::Training training{*model,        optimizer,   scheduler,      data,
                          rank.recorder, rank.ledger, rank.world_size};
  rank.recorder.begin_block();
  for (int step = 0; step < 2; ++step) {
    measure::meter().reset_peak();
    strategy->step(training, kMicroBatches);
    rank.recorder.end_step();
  }
  rank.ledger.settle(kTimeoutS);
  Seen seen;
  for (const auto& event : rank.ledger.events()) {
    seen.collectives.emplace_back(event.op, event.bytes);
  }
  seen.highest = measure::meter().highest_by_category();
  seen.reductions = model->reduction_bytes();
  return seen;
}

TEST(OneRank, CommunicatesAsAmongRealOnes) {
  for (const int world_size : {2, 4}) {
    run_ranks(world_size, [](RankHarness& rank) {
      const Group fake = fake_group(rank);
      for (const char* wrapper : {"ddp", "fsdp"}) {
        for (const char* strategy : {"baseline", "no_sync"}) {
          const Seen real = train(rank, rank.group, wrapper, strategy);
          const Seen alone = train(rank, fake, wrapper, strategy);
          EXPECT_FALSE(real.collectives.empty());
          EXPECT_EQ(alone.collectives, real.collectives) << wrapper << " " << strategy;
        }
      }
    });
  }
}

// To the byte in every category, except for the copies that gloo makes of what it moves.
TEST(OneRank, HoldsWhatItHoldsAmongRealOnes) {
  for (const int world_size : {2, 4}) {
    run_ranks(world_size, [](RankHarness& rank) {
      measure::meter().install();
      const Group fake = fake_group(rank);
      int account = 0;
      for (const char* strategy : {"sync_each_batch", "no_sync"}) {
        measure::meter().switch_account(++account);
        Seen real = train(rank, rank.group, "fsdp", strategy);
        measure::meter().switch_account(++account);
        Seen alone = train(rank, fake, "fsdp", strategy);
        const auto largest_unit = *std::max_element(real.reductions.begin(), real.reductions.end());
        EXPECT_EQ(measure::bytes_of(real.highest, MemoryCategory::Communication), largest_unit);
        EXPECT_EQ(measure::bytes_of(alone.highest, MemoryCategory::Communication), 0);
        measure::bytes_of(real.highest, MemoryCategory::Communication) = 0;
        EXPECT_EQ(alone.highest, real.highest) << strategy;
      }
    });
  }
}

// Beside its shards, one unit's worth of memory at a time.
TEST(OneRank, ShardsAModelThatHasNoMemory) {
  run_ranks(1, [](RankHarness& rank) {
    measure::meter().install();
    comm::GroupOptions world = rank.options;
    world.backend = "fake";
    world.world_size = 8;
    models::ModelOptions options;
    options.dtype = at::kBFloat16;
    options.without_memory = true;
    auto module = models::find_model("mixtral_tiny").make(options);
    std::int64_t elements = 0;
    for (const at::Tensor& parameter : module->parameters()) elements += parameter.numel();
    EXPECT_EQ(measure::bytes_of(measure::meter().allocated_by_category(), MemoryCategory::Other),
              measure::meter().allocated_bytes());
    EXPECT_LT(measure::meter().peak_bytes(), elements / 100) << "buffers alone";

    sync::FsdpOptions fsdp;
    fsdp.param_dtype = at::kBFloat16;
    fsdp.reduce_dtype = at::kBFloat16;
    const sync::FullyShardedDataParallel model(
        module, sync::FsdpGroups{comm::make_process_group(rank.store, world, rank.ledger), {}},
        fsdp);
    std::int64_t shard_bytes = 0;
    for (const at::Tensor& shard : model.parameters()) {
      EXPECT_EQ(shard.scalar_type(), at::kBFloat16);
      shard_bytes += static_cast<std::int64_t>(shard.nbytes());
    }
    const auto reductions = model.reduction_bytes();
    EXPECT_GE(shard_bytes, elements * 2 / 8);
    EXPECT_LE(
        measure::meter().peak_bytes(),
        shard_bytes + *std::max_element(reductions.begin(), reductions.end()) + elements / 100);
  });
}

}  // namespace
}  // namespace gradsync::test
