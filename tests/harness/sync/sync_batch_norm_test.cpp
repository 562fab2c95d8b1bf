// SyncBatchNorm on ranks that see one class each, against one process on the whole batch; what it
// communicates; and what becomes of statistics that are a rank's own.
#include "harness/sync/sync_batch_norm.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <optional>

#include "harness/base/errors.h"
#include "harness/plan/strategies.h"
#include "harness/run/expectation.h"
#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "harness/sync/strategies/strategy.h"
#include "models/convnet.h"
#include "models/mlp.h"
#include "tests/harness/sync/pictures.h"
#include "tests/harness/sync/ranks.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::test {
namespace {

using models::ConvNet;
using sync::DistributedDataParallel;
using testing::HasSubstr;

std::shared_ptr<ConvNet> convnet(at::ScalarType dtype = at::kFloat) {
  auto model = std::make_shared<ConvNet>(7, at::kCPU);
  model->to(dtype);
  return model;
}

// What the rounding of each type allows.
const std::map<at::ScalarType, double> kTolerances{{at::kFloat, 1e-5}, {at::kDouble, 1e-12}};

TEST(SyncBatchNorm, OutputsAndStatisticsAreThoseOfTheWholeBatch) {
  for (const int world_size : {2, 3}) {
    run_ranks(world_size, [](RankHarness& rank) {
      for (const auto& [dtype, tolerance] : kTolerances) {
        const auto model = convnet(dtype);
        const auto whole = convnet(dtype);
        sync::synchronize_batch_norm(*model, rank.group, &rank.recorder);
        for (int i = 0; i < 2; ++i) {
          const at::Tensor seen = model->logits(pictures_of(rank.rank, rank.world_size, i));
          const at::Tensor wanted = whole->logits(pictures_of_all(rank.world_size, i));
          EXPECT_LT(relative_difference(seen, wanted.narrow(0, 4 * rank.rank, 4)), tolerance) << i;
        }
        expect_same_statistics(*model, *whole, tolerance);
      }
    });
  }
}

// A rank with more examples has more to say.
TEST(SyncBatchNorm, RanksCountByTheirNumberOfValues) {
  run_ranks(2, [](RankHarness& rank) {
    const auto model = convnet(at::kDouble);
    const auto whole = convnet(at::kDouble);
    sync::synchronize_batch_norm(*model, rank.group, nullptr);
    const std::vector<models::Batch> batches{pictures_of(0, 2, 0, 2), pictures_of(1, 2, 0, 6)};
    const at::Tensor seen = model->logits(batches[static_cast<std::size_t>(rank.rank)]);
    const auto rows = whole->logits(together(batches)).split_with_sizes({2, 6});
    EXPECT_LT(relative_difference(seen, rows[static_cast<std::size_t>(rank.rank)]), 1e-12);
    expect_same_statistics(*model, *whole, 1e-12);
  });
}

void descend(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    parameter.sub_(parameter.grad(), 0.05);
    parameter.mutable_grad().reset();
  }
}

// Three steps of two micro-batches, the first of each under no_sync.
TEST(SyncBatchNorm, TrainsAsOneProcessOnTheWholeBatch) {
  constexpr int kMicroBatches = 2;
  run_ranks(2, [](RankHarness& rank) {
    for (const auto& [dtype, tolerance] : kTolerances) {
      DistributedDataParallel model(convnet(dtype), rank.group, {.sync_batch_norm = true});
      const auto whole = convnet(dtype);
      for (int step = 0; step < 3; ++step) {
        for (int i = 0; i < kMicroBatches; ++i) {
          const int index = step * kMicroBatches + i;
          std::optional<sync::NoSyncGuard> guard;
          if (i == 0) guard.emplace(model);
          sync::backward(model.forward(pictures_of(rank.rank, 2, index)), kMicroBatches, nullptr);
          sync::backward(whole->loss(pictures_of_all(2, index)), kMicroBatches, nullptr);
        }
        const auto wanted = whole->named_parameters();
        for (std::size_t k = 0; k < wanted.size(); ++k) {
          // Rounding grows with every step that is taken on top of another.
          EXPECT_LT(relative_difference(model.parameters()[k].grad(), wanted[k].value().grad()),
                    tolerance * (1 + 9 * step))
              << "step " << step << ", " << wanted[k].key();
        }
        descend(model.parameters());
        descend(whole->parameters());
      }
      expect_same_statistics(model.module(), *whole, 10 * tolerance);
    }
  });
}

// Between any rank's `values` and rank 0's.
double largest_difference_between_ranks(RankHarness& rank, const at::Tensor& values) {
  at::Tensor mine = values.detach().clone();
  at::Tensor all = at::empty({rank.world_size * mine.numel()}, mine.options());
  comm::all_gather(*rank.group, all, mine)->wait();
  const at::Tensor by_rank = all.view({rank.world_size, -1});
  return (by_rank - by_rank[0]).abs().max().item<double>();
}

// Trains so many micro-batches and returns what the first layer then remembers as its mean.
at::Tensor mean_after(RankHarness& rank, const sync::DdpOptions& options, int micro_batches) {
  DistributedDataParallel model(convnet(), rank.group, options);
  for (int i = 0; i < micro_batches; ++i) {
    sync::backward(model.forward(pictures_of(rank.rank, rank.world_size, i)), 1, nullptr);
  }
  return models::batch_norms_of(model.module()).front()->running_mean.clone();
}

TEST(SyncBatchNorm, WithoutItEachRankRemembersItsOwnClass) {
  run_ranks(3, [](RankHarness& rank) {
    constexpr double kNotable = 1e-3;
    const at::Tensor local = mean_after(rank, {.broadcast_buffers = false}, 2);
    EXPECT_GT(largest_difference_between_ranks(rank, local), kNotable);
    const at::Tensor shared =
        mean_after(rank, {.broadcast_buffers = false, .sync_batch_norm = true}, 2);
    EXPECT_EQ(largest_difference_between_ranks(rank, shared), 0);
  });
}

// DDP's broadcast before a forward makes the ranks agree, on what rank 0 saw.
TEST(SyncBatchNorm, BroadcastStatisticsAgreeAndAreRankZerosAlone) {
  run_ranks(2, [](RankHarness& rank) {
    DistributedDataParallel model(convnet(), rank.group, {});
    sync::backward(model.forward(pictures_of(rank.rank, 2, 0)), 1, nullptr);
    const auto layer = models::batch_norms_of(model.module()).front();
    const at::Tensor own = layer->running_mean.clone();
    EXPECT_GT(largest_difference_between_ranks(rank, own), 1e-3);
    model.module().eval();  // this forward only broadcasts
    model.forward(pictures_of(rank.rank, 2, 1));
    EXPECT_EQ(largest_difference_between_ranks(rank, layer->running_mean), 0);
    const auto zeros_world = convnet();
    zeros_world->loss(pictures_of(0, 2, 0));
    const auto whole = convnet();
    whole->loss(pictures_of_all(2, 0));
    const at::Tensor seen = layer->running_mean;
    const auto mean_of = [](const ConvNet& of) {
      return models::batch_norms_of(of).front()->running_mean;
    };
    EXPECT_LT(relative_difference(seen, mean_of(*zeros_world)), 1e-5);
    EXPECT_GT(relative_difference(seen, mean_of(*whole)), 0.1);
  });
}

// Sizes by operation, of each micro-batch of step 0.
std::vector<sync::Collectives> by_micro_batch(const std::vector<comm::CommEvent>& events,
                                              int micro_batches) {
  std::vector<sync::Collectives> seen(static_cast<std::size_t>(micro_batches));
  for (const comm::CommEvent& event : events) {
    if (event.step != 0) continue;
    seen[static_cast<std::size_t>(event.micro_batch)][event.op].push_back(event.bytes);
  }
  return seen;
}

// One steady step of `strategy`, with buckets that SyncBatchNorm's reductions come in between of.
std::vector<comm::CommEvent> events_of_a_step(RankHarness& rank, DistributedDataParallel& model,
                                              const std::string& strategy, int micro_batches) {
  sync::FusedAdamW optimizer(model.parameters(), {});
  sync::LinearWarmup scheduler(optimizer, 0, 1000);
  models::DataOptions options;
  options.rank = rank.rank;
  options.world_size = rank.world_size;
  options.micro_batch_size = 2;
  options.pictures = true;
  models::DataLoader data(options, 4);
  sync::Training training{model,         optimizer,   scheduler,      data,
                          rank.recorder, rank.ledger, rank.world_size};
  rank.recorder.begin_block();
  for (int step = -2; step <= 0; ++step) {
    training.step = step;
    sync::make_strategy(strategy)->step(training, micro_batches);
    rank.recorder.end_step();
  }
  rank.ledger.settle(kTimeoutS);
  return rank.ledger.events();
}

TEST(SyncBatchNorm, CommunicatesInEveryMicroBatchUnderNoSyncToo) {
  constexpr int kMicroBatches = 3;
  run_ranks(2, [](RankHarness& rank) {
    for (const char* name : {"baseline", "no_sync"}) {
      DistributedDataParallel model(convnet(), rank.group,
                                    {.first_bucket_bytes = 4096,
                                     .bucket_cap_bytes = 65536,
                                     .sync_batch_norm = true,
                                     .recorder = &rank.recorder});
      rank.ledger.settle(kTimeoutS);
      rank.ledger.clear();  // what the constructor gathered
      const auto events = events_of_a_step(rank, model, name, kMicroBatches);
      const auto seen = by_micro_batch(events, kMicroBatches);
      const bool each = std::string(name) == "baseline";
      const std::size_t buckets = model.reduction_bytes().size();
      ASSERT_GT(buckets, 2U);
      for (int i = 0; i < kMicroBatches; ++i) {
        sync::Collectives bytes = seen[static_cast<std::size_t>(i)];
        // Layers of 32, 64 and 128 channels: 2 ranks x (2 x channels + 1) and 2 x channels floats.
        EXPECT_THAT(bytes["batch_norm_all_gather"], testing::ElementsAre(520, 1032, 2056));
        EXPECT_THAT(bytes["batch_norm_all_reduce"], testing::ElementsAre(1024, 512, 256));
        EXPECT_EQ(bytes["all_reduce"].size(), each || i == kMicroBatches - 1 ? buckets : 0U) << i;
      }
      const auto syncs = plan::declared_syncs("ddp", name, kMicroBatches);
      EXPECT_EQ(run::first_mismatch(model.declared(syncs), events, 0), "") << name;
    }
  });
}

TEST(SyncBatchNorm, BucketsAreCountedWithoutIt) {
  run_ranks(2, [](RankHarness& rank) {
    DistributedDataParallel model(
        convnet(), rank.group,
        {.first_bucket_bytes = 4096, .bucket_cap_bytes = 65536, .sync_batch_norm = true});
    int next = 0;
    for (const auto& event : events_of_a_step(rank, model, "no_sync", 1)) {
      const bool is_bucket = std::string(event.op) == "all_reduce";
      if (event.step != 0) continue;
      EXPECT_EQ(event.bucket, is_bucket ? next++ : -1) << event.op;
    }
    EXPECT_EQ(static_cast<std::size_t>(next), model.reduction_bytes().size());
  });
}

TEST(SyncBatchNorm, WaitsAreNotComputation) {
  run_ranks(2, [](RankHarness& rank) {
    const auto model = convnet();
    sync::synchronize_batch_norm(*model, rank.group, &rank.recorder);
    rank.recorder.begin_block();
    rank.recorder.begin_micro_batch(0);
    rank.recorder.enter(measure::Phase::Forward);
    model->loss(pictures_of(rank.rank, 2, 0));
    rank.recorder.leave();
    rank.recorder.end_step();
    rank.recorder.end_block();
    int waits = 0;
    for (const auto& interval : rank.recorder.steps().at(0).intervals) {
      waits += interval.phase == measure::Phase::Wait ? 1 : 0;
    }
    EXPECT_EQ(waits, 3);  // one for each layer
  });
}

TEST(SyncBatchNorm, IsSilentInEvaluationAndOnOneRank) {
  for (const int world_size : {1, 2}) {
    run_ranks(world_size, [](RankHarness& rank) {
      const auto model = convnet();
      const auto plain = convnet();
      sync::synchronize_batch_norm(*model, rank.group, nullptr);
      if (rank.world_size > 1) {
        model->eval();
        plain->eval();
      }
      rank.ledger.settle(kTimeoutS);
      rank.ledger.clear();
      const auto batch = pictures_of(rank.rank, rank.world_size, 0);
      EXPECT_TRUE(model->logits(batch).equal(plain->logits(batch)));
      rank.ledger.settle(kTimeoutS);
      EXPECT_TRUE(rank.ledger.events().empty());
      EXPECT_TRUE(sync::batch_norm_collectives(sync::batch_norm_channels(*model), 1).empty());
    });
  }
}

TEST(SyncBatchNorm, RefusesAModelWithoutBatchNormalization) {
  run_ranks(1, [](RankHarness& rank) {
    const auto refusal = message_of<ConfigError>([&] {
      const DistributedDataParallel model(std::make_shared<models::Mlp>(1, at::kCPU), rank.group,
                                          {.sync_batch_norm = true});
    });
    EXPECT_THAT(refusal, HasSubstr("sync_batch_norm: got true for a model without batch"));
  });
}

}  // namespace
}  // namespace gradsync::test
