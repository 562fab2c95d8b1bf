// The four strategies: same gradients, and exactly the collectives they declare.
// Covers: accumulate.cpp, baseline.cpp, no_sync.cpp, no_sync_improper.cpp, strategy.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "harness/plan/strategies.h"
#include "harness/run/expectation.h"
#include "harness/sync/ddp.h"
#include "harness/sync/strategies/strategy.h"
#include "tests/harness/sync/ranks.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::test {
namespace {

constexpr int kAccumulation = 4;
constexpr int kRanks = 2;

// What one strategy left behind on one rank.
struct Outcome {
  std::vector<at::Tensor> parameters;
  std::vector<comm::CommEvent> events;
  std::string mismatch;
};

class TokensFile {
 public:
  TokensFile() : path_(folder_.file("toy_tokens.jsonl")) {
    std::FILE* file = std::fopen(path_.c_str(), "w");
    for (int i = 0; i < kRanks * kAccumulation * 2 * 4; ++i) {
      std::fprintf(file, "{\"input_ids\": [%d, %d, %d, %d], \"label\": 1}\n", i % 11, i % 7, i % 5,
                   1);
    }
    std::fclose(file);
  }
  const std::string& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

models::DataLoader loader_of(const RankHarness& rank, const std::string& data_file) {
  models::DataOptions options;
  options.rank = rank.rank;
  options.world_size = rank.world_size;
  options.micro_batch_size = 2;
  options.sequence_length = 4;
  options.file = data_file;
  return models::DataLoader(options, 16);
}

Outcome train(RankHarness& rank, const std::string& strategy_name, const std::string& data_file) {
  sync::DdpOptions options{.first_bucket_bytes = 16, .bucket_cap_bytes = 64};
  options.recorder = &rank.recorder;
  sync::DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, options);
  sync::FusedAdamW optimizer(model.parameters(), {.lr = 1e-2});
  sync::LinearWarmup scheduler(optimizer, 0, 1000);
  models::DataLoader data = loader_of(rank, data_file);
  sync::Training training{model,         optimizer,   scheduler,      data,
                          rank.recorder, rank.ledger, rank.world_size};
  const auto strategy = sync::make_strategy(strategy_name);
  rank.recorder.begin_block();
  for (int step = 0; step < 4; ++step) {
    training.step = step - 3;  // the bucket rebuild lies in the first two
    strategy->step(training, kAccumulation);
    rank.recorder.end_step();
    rank.ledger.settle(kTimeoutS);
    if (training.step == -1) rank.ledger.clear();
  }
  Outcome outcome;
  for (const at::Tensor& parameter : model.parameters()) {
    outcome.parameters.push_back(parameter.detach().clone());
  }
  outcome.events = rank.ledger.events();
  const auto syncs = plan::declared_syncs("ddp", strategy_name, kAccumulation);
  outcome.mismatch = run::first_mismatch(model.declared(syncs), outcome.events, 0);
  return outcome;
}

using Outcomes = std::map<std::string, Outcome>;

// Trains with every strategy in turn on each of two ranks, and checks what each rank saw.
void expect_of_all(const std::function<void(const Outcomes&)>& check) {
  const TokensFile tokens;
  run_ranks(kRanks, [&](RankHarness& rank) {
    Outcomes outcomes;
    for (const auto& entry : plan::strategies()) {
      if (entry.wrappers == std::vector<std::string>{"pipeline"}) continue;  // reduces nothing
      rank.ledger.settle(kTimeoutS);
      rank.ledger.clear();
      outcomes[entry.name] = train(rank, entry.name, tokens.path());
    }
    check(outcomes);
  });
}

int count(const Outcome& outcome, const std::string& op) {
  int total = 0;
  for (const comm::CommEvent& event : outcome.events) total += event.op == op ? 1 : 0;
  return total;
}

TEST(Strategies, CommunicateWhatTheyDeclare) {
  expect_of_all([](const Outcomes& outcomes) {
    for (const auto& [name, outcome] : outcomes) EXPECT_EQ(outcome.mismatch, "") << name;
  });
}

TEST(Strategies, CountsAreExact) {
  expect_of_all([](const Outcomes& outcomes) {
    constexpr int kBuckets = 2;
    EXPECT_EQ(count(outcomes.at("baseline"), "all_reduce"), kAccumulation * kBuckets);
    EXPECT_EQ(count(outcomes.at("no_sync_improper"), "all_reduce"), kAccumulation * kBuckets);
    EXPECT_EQ(count(outcomes.at("no_sync"), "all_reduce"), kBuckets);
    EXPECT_EQ(count(outcomes.at("accumulate"), "all_reduce"), kBuckets);
    EXPECT_EQ(count(outcomes.at("baseline"), "broadcast"), kAccumulation);
    EXPECT_EQ(count(outcomes.at("no_sync"), "broadcast"), 1);
  });
}

TEST(Strategies, ImproperIsTheBaselineEventForEvent) {
  expect_of_all([](const Outcomes& outcomes) {
    const auto& baseline = outcomes.at("baseline").events;
    const auto& improper = outcomes.at("no_sync_improper").events;
    ASSERT_EQ(baseline.size(), improper.size());
    for (std::size_t i = 0; i < baseline.size(); ++i) {
      EXPECT_STREQ(baseline[i].op, improper[i].op);
      EXPECT_EQ(baseline[i].bytes, improper[i].bytes);
      EXPECT_EQ(baseline[i].micro_batch, improper[i].micro_batch);
      EXPECT_EQ(baseline[i].bucket, improper[i].bucket);
    }
  });
}

TEST(Strategies, AllTrainTheSameModel) {
  expect_of_all([](const Outcomes& outcomes) {
    const auto& reference = outcomes.at("baseline").parameters;
    const ToyModel untrained;
    EXPECT_FALSE(at::allclose(reference[0], untrained.w1));
    for (const auto& [name, outcome] : outcomes) {
      for (std::size_t i = 0; i < reference.size(); ++i) {
        EXPECT_TRUE(at::allclose(outcome.parameters[i], reference[i], 1e-4, 1e-6))
            << name << ", tensor " << i;
      }
    }
  });
}

// Keeps what it would step by.
class GradientKeeper : public sync::Optimizer {
 public:
  explicit GradientKeeper(std::vector<at::Tensor> parameters)
      : parameters_(std::move(parameters)) {}
  void step() override {
    for (const at::Tensor& parameter : parameters_) kept.push_back(parameter.grad().clone());
  }
  void zero_grad() override {
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  }
  double lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }

  std::vector<at::Tensor> kept;

 private:
  std::vector<at::Tensor> parameters_;
  double lr_ = 0;
};

// The gradients of one step of three micro-batches where a full window has `accumulation_steps`.
std::vector<at::Tensor> gradients_of_three(RankHarness& rank, const std::string& strategy,
                                           const std::string& data_file, int accumulation_steps) {
  sync::DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, {});
  GradientKeeper optimizer(model.parameters());
  sync::LinearWarmup scheduler(optimizer, 0, 1000);
  models::DataLoader data = loader_of(rank, data_file);
  sync::Training training{model,         optimizer,   scheduler,      data,
                          rank.recorder, rank.ledger, rank.world_size};
  training.accumulation_steps = accumulation_steps;
  rank.recorder.begin_block();
  sync::make_strategy(strategy)->step(training, 3);
  rank.recorder.end_block();
  return optimizer.kept;
}

TEST(Strategies, AShortWindowIsDividedAsAFullOneIs) {
  const TokensFile tokens;
  run_ranks(1, [&](RankHarness& rank) {
    for (const auto& entry : plan::strategies()) {
      if (entry.wrappers == std::vector<std::string>{"pipeline"}) continue;
      const auto of_three = gradients_of_three(rank, entry.name, tokens.path(), 3);
      const auto of_four = gradients_of_three(rank, entry.name, tokens.path(), 4);
      ASSERT_EQ(of_three.size(), ToyModel().parameters().size()) << entry.name;
      ASSERT_EQ(of_four.size(), of_three.size()) << entry.name << " steps once";
      for (std::size_t i = 0; i < of_three.size(); ++i) {
        EXPECT_GT(of_three[i].abs().max().item<float>(), 0) << entry.name;
        EXPECT_TRUE(at::allclose(4 * of_four[i], 3 * of_three[i])) << entry.name << " " << i;
      }
    }
  });
}

TEST(Strategies, EveryEventHasAnEndAfterItsStart) {
  expect_of_all([](const Outcomes& outcomes) {
    for (const auto& [name, outcome] : outcomes) {
      for (const comm::CommEvent& event : outcome.events) {
        EXPECT_GT(event.start_ns, 0) << name;
        EXPECT_GE(event.end_ns, event.start_ns) << name;
      }
    }
  });
}

}  // namespace
}  // namespace gradsync::test
