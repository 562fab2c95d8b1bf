// Ranks as threads of one process: real gloo over loopback, a store in memory. For tests.
#pragma once

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "harness/base/clock.h"
#include "harness/comm/process_groups.h"
#include "harness/measure/step_recorder.h"
#include "models/model.h"

namespace gradsync::test {

struct RankHarness {
  int rank;
  int world_size;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  comm::Ledger& ledger;
  measure::StepRecorder& recorder;
};

// Runs `body` on `world_size` ranks and rethrows the first exception. Ten seconds is the deadline
// of every collective, so a test that hangs fails instead.
inline void run_ranks(int world_size, const std::function<void(RankHarness&)>& body) {
  constexpr double kTimeoutS = 10;
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        comm::Ledger ledger(steady_clock());
        measure::StepRecorder recorder(steady_clock());
        comm::GroupOptions options;
        options.rank = rank;
        options.world_size = world_size;
        options.address = "127.0.0.1";
        options.timeout_s = kTimeoutS;
        RankHarness harness{rank, world_size, comm::make_process_group(store, options, ledger),
                            ledger, recorder};
        body(harness);
        comm::barrier(*harness.group);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
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

}  // namespace gradsync::test
