// Ranks as forked processes: real gloo over loopback, a store in a file. For tests.
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <vector>

#include "harness/base/clock.h"
#include "harness/comm/process_groups.h"
#include "harness/measure/step_recorder.h"
#include "harness/sync/wrapper.h"
#include "models/model.h"
#include "tests/harness/comm/fork_ranks.h"

namespace gradsync::test {

// The deadline of every collective of a test, only for hangs. Larger than any delay on a busy
// machine, where four ranks share what is left of two cores.
constexpr double kTimeoutS = 120;

struct RankHarness {
  int rank;
  int world_size;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  comm::Ledger& ledger;
  measure::StepRecorder& recorder;
  c10::intrusive_ptr<c10d::Store> store;
  comm::GroupOptions options;  // of `group`
};

// A group of some of the ranks, in which this one is number `rank`. Collective over those.
inline c10::intrusive_ptr<c10d::ProcessGroup> subgroup(const RankHarness& of,
                                                       const std::string& name, int rank,
                                                       int world_size) {
  comm::GroupOptions options = of.options;
  options.name = name;
  options.rank = rank;
  options.world_size = world_size;
  return comm::make_process_group(of.store, options, of.ledger);
}

// Counts the collectives of kind `op` that this rank issues in `body`.
template <typename Body>
int count_collectives(RankHarness& rank, const std::string& op, Body body) {
  rank.ledger.settle(kTimeoutS);
  rank.ledger.clear();
  rank.ledger.set_place(0, 0);
  body();
  rank.ledger.settle(kTimeoutS);
  int count = 0;
  for (const comm::CommEvent& event : rank.ledger.events()) count += event.op == op ? 1 : 0;
  return count;
}

template <typename Body>
int all_reduces(RankHarness& rank, Body body) {
  return count_collectives(rank, "all_reduce", body);
}

// What a rank's process ends with.
enum RankExit { kRankPassed = 0, kRankFailed = 1, kRankThrew = 2 };

inline comm::GroupOptions rank_options(int rank, int world_size) {
  comm::GroupOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.address = "127.0.0.1";
  options.timeout_s = kTimeoutS;
  return options;
}

// The life of one rank's process.
inline int run_rank(const comm::GroupOptions& options, const std::string& store_file,
                    const std::function<void(RankHarness&)>& body) {
  at::set_num_threads(1);  // more ranks than cores: OpenMP's waiting threads would starve others
  try {
    comm::Ledger ledger(steady_clock());
    measure::StepRecorder recorder(steady_clock());
    const auto store = c10::make_intrusive<c10d::FileStore>(store_file, options.world_size);
    RankHarness harness{
        options.rank, options.world_size, comm::make_process_group(store, options, ledger),
        ledger,       recorder,           store,
        options};
    body(harness);
    comm::barrier(*harness.group);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d threw: %.200s\n", options.rank, error.what());
    return kRankThrew;
  }
  return ::testing::Test::HasFailure() ? kRankFailed : kRankPassed;
}

inline void expect_passed(const std::vector<int>& codes) {
  bool threw = false;
  for (const int code : codes) {
    threw = threw || code == kRankThrew;
    EXPECT_TRUE(code == kRankPassed || code == kRankThrew) << "a rank ended with " << code;
  }
  if (threw) throw std::runtime_error("a rank threw");
}

// Runs `body` on `world_size` ranks and fails where an expectation fails in any of them.
// Errors: std::runtime_error where a rank threw. Every collective has a deadline, so a test that
// hangs fails instead.
inline void run_ranks(int world_size, const std::function<void(RankHarness&)>& body) {
  expect_passed(fork_ranks(world_size, [&](int rank, const std::string& store_file) {
    return run_rank(rank_options(rank, world_size), store_file, body);
  }));
}

// The same of rank 0 alone, which the fake backend lets stand for all (one_rank_test.cpp).
inline void run_first_of(int world_size, const std::function<void(RankHarness&)>& body) {
  expect_passed(fork_ranks(1, [&](int rank, const std::string& store_file) {
    comm::GroupOptions options = rank_options(rank, world_size);
    options.backend = "fake";
    return run_rank(options, store_file, body);
  }));
}

// y = w2 tanh(w1 x), with a branch that a batch may leave out, and a buffer; deterministic.
class ToyModel : public models::Model {
 public:
  explicit ToyModel(double fill = 0.1, std::int64_t width = 8) {
    w1 = register_parameter("w1", at::full({width, 4}, fill));
    w2 = register_parameter("w2", at::full({1, width}, fill));
    branch = register_parameter("branch", at::full({1, width}, fill));
    counter = register_buffer("counter", at::full({3}, fill));
  }
  // input_ids: [micro_batch, 4] as numbers; labels: 1 = the branch is taken.
  at::Tensor loss(const models::Batch& batch) override {
    const at::Tensor x = batch.input_ids.to(at::kFloat) / 10;
    const at::Tensor hidden = at::tanh(at::matmul(x, w1.t()));
    at::Tensor y = at::matmul(hidden, w2.t());
    if (batch.labels.sum().item<std::int64_t>() > 0) y = y + at::matmul(hidden, branch.t());
    return y.pow(2).mean();
  }
  at::Tensor w1, w2, branch, counter;
};

// Micro-batch number `index` of `rank`: two examples that differ by rank and index.
inline models::Batch toy_batch(int rank, int index, bool branch = true) {
  models::Batch batch;
  batch.input_ids = at::arange(8, at::kLong).reshape({2, 4}) + 3 * rank + 7 * index;
  batch.labels = at::full({2}, branch ? 1 : 0, at::kLong);
  return batch;
}

// What backward left with the parameters, in the order of registration.
inline std::vector<at::Tensor> gradients_held_by(const models::Model& model) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model.parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

inline void expect_gradients(const sync::Wrapper& model, const std::vector<at::Tensor>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(at::allclose(model.parameters()[i].grad(), wanted[i], 1e-5, 1e-7))
        << "tensor " << i;
  }
}

}  // namespace gradsync::test
