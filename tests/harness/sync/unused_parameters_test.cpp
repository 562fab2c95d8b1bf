// Parameters that a micro-batch does not use: what DDP does to them without find_unused_parameters,
// with it under every strategy, and under static_graph; against one process on the whole batch.
// Covers: branching.cpp.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "harness/plan/strategies.h"
#include "harness/run/expectation.h"
#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "harness/sync/strategies/strategy.h"
#include "models/branching.h"
#include "tests/harness/sync/ranks.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::test {
namespace {

using models::Branching;
using models::UntakenBranch;
using sync::DdpOptions;
using sync::DistributedDataParallel;
using testing::HasSubstr;

constexpr int kRanks = 2;
constexpr std::int64_t kParameters = 8;

std::shared_ptr<Branching> branching(UntakenBranch untaken = UntakenBranch::Unused) {
  return std::make_shared<Branching>(untaken, /*seed=*/42, at::kCPU);
}

// Micro-batch number `index` of `rank`, which goes left, 'L', or right, 'R'.
models::Batch batch_going(char way, int rank, int index) {
  models::Batch batch;
  batch.input_ids = at::arange(8, at::kLong).reshape({2, 4}) * 5 + 11 * rank + 23 * index;
  batch.input_ids[0][0] = way == 'L' ? 2 : 3;
  batch.labels = at::arange(2, at::kLong);
  return batch;
}

// For each rank, the branches of its micro-batches of one step: {"RL", "LL"}.
using Ways = std::vector<std::string>;

// Returns the gradients that one process gets from all of them, averaged; undefined if no rank used
// the parameter.
std::vector<at::Tensor> gradients_of(const Ways& ways) {
  const auto model = branching();
  for (std::size_t rank = 0; rank < ways.size(); ++rank) {
    for (std::size_t i = 0; i < ways[rank].size(); ++i) {
      const auto batch = batch_going(ways[rank][i], static_cast<int>(rank), static_cast<int>(i));
      (model->loss(batch) / static_cast<double>(ways.size() * ways[rank].size())).backward();
    }
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

std::vector<at::Tensor> gradients_of(const sync::Wrapper& model) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model.parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || at::allclose(a, b, 1e-4, 1e-6));
}

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor& x, const at::Tensor& y) { return same(x, y); });
}

// One step of this rank, all but its last micro-batch inside no_sync.
void accumulate(DistributedDataParallel& model, const Ways& ways, int rank) {
  const std::string& own = ways[static_cast<std::size_t>(rank)];
  for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto micro_batch = [&] {
      const at::Tensor loss = model.forward(batch_going(own[i], rank, static_cast<int>(i)));
      sync::backward(loss, static_cast<int>(own.size()), nullptr);
    };
    if (i + 1 < own.size()) {
      const auto guard = model.no_sync();
      micro_batch();
    } else {
      micro_batch();
    }
  }
}

TEST(UnusedParameters, AreReducedWithSearchWhereverTheyWereUsed) {
  const std::vector<Ways> steps{
      {"L", "R"},    // each rank uses what the other one does not
      {"LL", "RR"},  // the same, accumulated
      {"RL", "LL"},  // right in an unsynchronized micro-batch of one rank alone
      {"RL", "RL"},  // ... of both ranks
      {"LR", "RL"},  // everything, on both ranks
      {"LL", "LL"},  // right nowhere: it gets no gradient on any rank
  };
  run_ranks(kRanks, [&](RankHarness& rank) {
    for (const bool view : {false, true}) {
      DistributedDataParallel model(
          branching(), rank.group,
          {.find_unused_parameters = true, .gradient_as_bucket_view = view});
      for (const Ways& ways : steps) {
        accumulate(model, ways, rank.rank);
        EXPECT_TRUE(same(gradients_of(model), gradients_of(ways)))
            << ways[0] << " and " << ways[1] << ", gradient_as_bucket_view " << view;
      }
    }
  });
}

TEST(UnusedParameters, TheSearchAddsOneSmallAllReduceToASynchronizedMicroBatch) {
  run_ranks(kRanks, [](RankHarness& rank) {
    DistributedDataParallel model(branching(), rank.group, {.find_unused_parameters = true});
    constexpr int kBuckets = 2;  // the caps apply at once: these buckets are never rebuilt
    for (int step = 0; step < 3; ++step) {
      const int count = all_reduces(rank, [&] { accumulate(model, {"RL", "LL"}, rank.rank); });
      EXPECT_EQ(count, kBuckets + 1);
      EXPECT_EQ(model.reduction_bytes().size(), kBuckets);
      EXPECT_EQ(rank.ledger.events().back().bytes, kParameters * 4);
    }
  });
}

// Steps downhill, and leaves out what has no gradient. Its rate is constant.
class Sgd : public sync::Optimizer {
 public:
  explicit Sgd(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}
  void step() override {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters_) {
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), kRate);
    }
  }
  void zero_grad() override {
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }
  double lr() const override { return kRate; }
  void set_lr(double) override {}

 private:
  static constexpr double kRate = 0.05;
  std::vector<at::Tensor> parameters_;
};

constexpr int kSteps = 6;
constexpr int kMicroBatches = 4;

models::DataLoader loader_of(int rank) {
  models::DataOptions options;
  options.rank = rank;
  options.world_size = kRanks;
  options.micro_batch_size = 2;
  options.sequence_length = 8;
  options.vocabulary_size = branching()->vocabulary_size();
  return {options, kSteps * kMicroBatches};
}

// Where the data sends the micro-batches of each step.
std::vector<Ways> ways_of_the_data() {
  std::vector<Ways> steps(kSteps, Ways(kRanks));
  for (int rank = 0; rank < kRanks; ++rank) {
    models::DataLoader data = loader_of(rank);
    for (int i = 0; i < kSteps * kMicroBatches; ++i) {
      steps[static_cast<std::size_t>(i / kMicroBatches)][static_cast<std::size_t>(rank)] +=
          models::takes_left(data.next()) ? 'L' : 'R';
    }
  }
  return steps;
}

std::vector<at::Tensor> values_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& parameter : parameters) values.push_back(parameter.detach().clone());
  return values;
}

std::vector<at::Tensor> trained_by_one_process() {
  const auto model = branching();
  std::vector<models::DataLoader> data;
  for (int rank = 0; rank < kRanks; ++rank) data.push_back(loader_of(rank));
  Sgd optimizer(model->parameters());
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kMicroBatches; ++i) {
      for (models::DataLoader& loader : data) {
        (model->loss(loader.next()) / (kRanks * kMicroBatches)).backward();
      }
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  return values_of(model->parameters());
}

// A model of this rank with all that a strategy trains it with.
struct Trained {
  Trained(RankHarness& of, std::shared_ptr<models::Model> module, const DdpOptions& options)
      : rank(of), model(std::move(module), of.group, options), optimizer(model.parameters()) {}

  void step(sync::Strategy& strategy, int number) {
    training.step = number;
    strategy.step(training, kMicroBatches);
    rank.recorder.end_step();
    rank.ledger.settle(kTimeoutS);
  }

  RankHarness& rank;
  DistributedDataParallel model;
  Sgd optimizer;
  sync::LinearWarmup scheduler{optimizer, 0, 1000};
  models::DataLoader data = loader_of(rank.rank);
  sync::Training training{model,         optimizer,   scheduler,      data,
                          rank.recorder, rank.ledger, rank.world_size};
};

// The strategies that a wrapper of that name has.
std::vector<std::string> strategies_of(const std::string& wrapper) {
  std::vector<std::string> names;
  for (const auto& entry : plan::strategies()) {
    if (std::ranges::find(entry.wrappers, wrapper) != entry.wrappers.end()) {
      names.push_back(entry.name);
    }
  }
  return names;
}

class UnusedParametersUnder : public testing::TestWithParam<std::string> {};

TEST_P(UnusedParametersUnder, TrainAsInOneProcessWithSearch) {
  const auto wanted = trained_by_one_process();
  EXPECT_FALSE(same(wanted, branching()->parameters()));
  run_ranks(kRanks, [&](RankHarness& rank) {
    Trained trained(rank, branching(),
                    {.find_unused_parameters = true, .recorder = &rank.recorder});
    const auto strategy = sync::make_strategy(GetParam());
    const auto declared =
        trained.model.declared(plan::declared_syncs("ddp", GetParam(), kMicroBatches));
    rank.ledger.clear();
    rank.recorder.begin_block();
    for (int step = 0; step < kSteps; ++step) {
      trained.step(*strategy, step);
      EXPECT_EQ(run::first_mismatch(declared, rank.ledger.events(), step), "");
    }
    EXPECT_TRUE(same(values_of(trained.model.parameters()), wanted));
  });
}

// How many micro-batches a rank trains until its wrapper notices.
int micro_batches_until_noticed(RankHarness& rank, const std::string& strategy_name) {
  struct Counting : Branching {
    Counting() : Branching(UntakenBranch::Unused, 42, at::kCPU) {}
    at::Tensor loss(const models::Batch& batch) override {
      ++forwards;
      return Branching::loss(batch);
    }
    int forwards = 0;
  };
  const auto module = std::make_shared<Counting>();
  Trained trained(rank, module, {.recorder = &rank.recorder});
  const auto strategy = sync::make_strategy(strategy_name);
  rank.recorder.begin_block();
  EXPECT_THROW(
      {
        for (int step = 0; step < kSteps; ++step) trained.step(*strategy, step);
      },
      sync::UnfinishedReduction);
  return module->forwards;
}

// Where every micro-batch is synchronized, the second one tells. no_sync's first one that is comes
// last in its step, so that the optimizer has stepped by gradients of which no two ranks have the
// same before the next step's first forward tells.
TEST_P(UnusedParametersUnder, AreNoticedByTheForwardAfterASynchronizedOneWithoutSearch) {
  run_ranks(kRanks, [&](RankHarness& rank) {
    const auto syncs = plan::declared_syncs("ddp", GetParam(), kMicroBatches);
    const auto first = std::ranges::find(syncs, true) - syncs.begin();
    EXPECT_EQ(micro_batches_until_noticed(rank, GetParam()), first + 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, UnusedParametersUnder, testing::ValuesIn(strategies_of("ddp")),
                         [](const auto& info) { return info.param; });

// What makes the two tests above mean something.
TEST(UnusedParameters, TheDataHasEveryCase) {
  const auto steps = ways_of_the_data();
  const auto last_differs = [](const Ways& ways) { return ways[0].back() != ways[1].back(); };
  const auto used_unsynchronized_alone = [](const Ways& ways) {
    const char last = ways[0].back();
    const auto goes_elsewhere = [last](const std::string& own) {
      return std::ranges::any_of(own, [last](char way) { return way != last; });
    };
    return ways[1].back() == last && std::ranges::any_of(ways, goes_elsewhere);
  };
  EXPECT_TRUE(std::ranges::any_of(steps, last_differs));
  EXPECT_TRUE(std::ranges::any_of(steps, used_unsynchronized_alone));
}

TEST(UnusedParameters, WithoutSearchGradientsSilentlyDifferAndTheNextForwardSaysSo) {
  const Ways ways{"L", "R"};
  run_ranks(kRanks, [&](RankHarness& rank) {
    DistributedDataParallel model(branching(), rank.group, {});
    // The first bucket holds everything, and no rank has all of it: nothing is reduced.
    EXPECT_EQ(all_reduces(rank, [&] { accumulate(model, ways, rank.rank); }), 0);
    const auto own = branching();
    own->loss(batch_going(ways[static_cast<std::size_t>(rank.rank)][0], rank.rank, 0)).backward();
    for (std::size_t i = 0; i < own->parameters().size(); ++i) {
      EXPECT_TRUE(same(model.parameters()[i].grad(), own->parameters()[i].grad())) << i;
    }
    EXPECT_FALSE(same(gradients_of(model), gradients_of(ways)));

    const std::string unused = rank.rank == 0 ? "right" : "left";
    const auto next_forward = [&] { model.forward(batch_going('L', rank.rank, 1)); };
    const std::string words = message_of<sync::UnfinishedReduction>(next_forward);
    EXPECT_THAT(words, HasSubstr("parameter " + unused +
                                 "_weight and 1 more got no gradient in "
                                 "the last synchronized micro-batch"));
    EXPECT_THAT(words, HasSubstr("expected every parameter in use, or find_unused_parameters"));
    EXPECT_THAT(words, HasSubstr("torch: Expected to have finished reduction"));
    {
      const auto guard = model.no_sync();  // no way past it
      EXPECT_THROW(next_forward(), sync::UnfinishedReduction);
    }
    const at::NoGradGuard no_grad;
    EXPECT_NO_THROW(next_forward());  // evaluation does not look
  });
}

// Ends this rank's process at once, as one does whose step has failed.
[[noreturn]] void leave() {
  std::fflush(nullptr);
  _exit(testing::Test::HasFailure() ? kRankFailed : kRankPassed);
}

// The rank that is left may write to the other's socket before its loop has read that this is gone.
TEST(UnusedParameters, ARankOutlivesAWriteToWhatIsGone) {
  run_ranks(kRanks, [](RankHarness&) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    ::close(ends[0]);
    EXPECT_EQ(::write(ends[1], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
    ::close(ends[1]);
  });
}

TEST(UnusedParameters, WithoutSearchARankThatUsedAllWaitsUntilTheOtherOneEnds) {
  run_ranks(kRanks, [](RankHarness& rank) {
    const bool uses_all = rank.rank == 0;
    DistributedDataParallel model(
        branching(uses_all ? UntakenBranch::TimesZero : UntakenBranch::Unused), rank.group, {});
    const at::Tensor loss = model.forward(batch_going('L', rank.rank, 0));
    if (uses_all) {
      const std::string words =
          message_of<std::exception>([&] { sync::backward(loss, 1, nullptr); });
      EXPECT_TRUE(comm::CommFailure(words).is_comm()) << words;
      EXPECT_FALSE(comm::CommFailure(words).timed_out()) << words;
    } else {
      sync::backward(loss, 1, nullptr);
      EXPECT_THROW(model.forward(batch_going('L', rank.rank, 1)), sync::UnfinishedReduction);
    }
    leave();
  });
}

TEST(UnusedParameters, TimesZeroTheyHaveGradientsAndNeedNoSearch) {
  const Ways ways{"RL", "LL"};
  run_ranks(kRanks, [&](RankHarness& rank) {
    for (const DdpOptions& options : {DdpOptions{}, DdpOptions{.static_graph = true}}) {
      DistributedDataParallel model(branching(UntakenBranch::TimesZero), rank.group, options);
      accumulate(model, {"L", "R"}, rank.rank);  // static_graph learns
      accumulate(model, ways, rank.rank);
      EXPECT_TRUE(same(gradients_of(model), gradients_of(ways)));
      accumulate(model, {"LL", "LL"}, rank.rank);
      for (const at::Tensor& gradient : gradients_of(model)) EXPECT_TRUE(gradient.defined());
    }
  });
}

TEST(UnusedParameters, StaticGraphRefusesABranchThatIsTakenLater) {
  run_ranks(kRanks, [](RankHarness& rank) {
    DistributedDataParallel model(branching(), rank.group, {.static_graph = true});
    accumulate(model, {"L", "L"}, rank.rank);
    EXPECT_THAT(message_of<std::exception>([&] {
                  accumulate(model, {"R", "R"}, rank.rank);
                }),
                HasSubstr("training graph has changed"));
    leave();
  });
}

TEST(UnusedParameters, StaticGraphRefusesOneThatIsNoLongerTaken) {
  run_ranks(kRanks, [](RankHarness& rank) {
    DistributedDataParallel model(std::make_shared<ToyModel>(), rank.group, {.static_graph = true});
    for (const bool branch : {true, true, false}) {
      sync::backward(model.forward(toy_batch(rank.rank, 0, branch)), 1, nullptr);
    }
    const std::string words =
        message_of<sync::UnfinishedReduction>([&] { model.forward(toy_batch(rank.rank, 0)); });
    EXPECT_THAT(words, HasSubstr("parameter branch got no gradient"));
    EXPECT_THAT(words, HasSubstr("training graph has changed"));
    leave();
  });
}

}  // namespace
}  // namespace gradsync::test
