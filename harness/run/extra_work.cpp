#include "harness/run/extra_work.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "harness/base/clock.h"
#include "harness/comm/process_groups.h"
#include "harness/run/block.h"
#include "harness/stats/sample.h"

namespace gradsync::run {
namespace {

// Small enough to stay in a core's first cache: the work then costs as much in a step, which has
// filled the caches with its own, as where it was timed. Fewer: an operation is all overhead.
constexpr std::int64_t kNumbers = 2048;

constexpr int kWarmupSteps = 2;
constexpr int kTimedSteps = 10;
// Operations are timed in batches that last about as long as the work of a short step.
constexpr int kBatches = 20;
constexpr std::int64_t kOperationsPerBatch = 200;

// The quantile of step times that counts: disturbances only make a step longer, and a gate judges
// by the low quantile.
constexpr double kUndisturbed = 0.25;

double time_step(const RankContext& context, Workload& workload, const plan::Cell& cell,
                 ExtraWork* extra = nullptr) {
  plan::Trial trial;
  trial.cell = cell;
  trial.warmup_steps = kWarmupSteps;
  trial.steps = kTimedSteps;
  return stats::quantile(run_block(context, workload, trial, extra).rank.step_s, kUndisturbed);
}

double time_operation(const RankContext& context) {
  ExtraWork batch(kOperationsPerBatch, at::Device(context.spec.device));
  batch.run();
  context.recorder.begin_block();
  for (int i = 0; i < kBatches; ++i) {
    batch.run();
    context.recorder.end_step();
  }
  context.recorder.end_block();
  std::vector<double> batch_s;
  for (const measure::RecordedStep& times : context.recorder.steps()) {
    batch_s.push_back(times.total_s());
  }
  return stats::quantile(batch_s, 0.5) / kOperationsPerBatch;
}

}  // namespace

ExtraWork::ExtraWork(std::int64_t operations, at::Device device) : operations_(operations) {
  if (device.is_cpu()) {
    memory_.resize(2 * kNumbers);
    std::fill(memory_.begin() + kNumbers, memory_.end(), 1.0F);
    sums_ = at::from_blob(memory_.data(), {kNumbers}, at::kFloat);
    ones_ = at::from_blob(memory_.data() + kNumbers, {kNumbers}, at::kFloat);
  } else {
    sums_ = at::zeros({kNumbers}, at::TensorOptions(device).dtype(at::kFloat));
    ones_ = at::ones({kNumbers}, at::TensorOptions(device).dtype(at::kFloat));
  }
}

void ExtraWork::run() {
  const at::NoGradGuard no_grad;
  const std::int64_t begun_ns = thread_processor_ns();
  for (std::int64_t i = 0; i < operations_; ++i) sums_.add_(ones_);
  spent_ns_ += thread_processor_ns() - begun_ns;
}

std::int64_t ExtraWork::done() const {
  return std::llround(sums_[0].item<double>());
}

double ExtraWork::mean_operation_s() const {
  return spent_ns_ == 0 ? 0 : seconds(spent_ns_) / static_cast<double>(done());
}

std::int64_t operations_for(double share, double step_s, double operation_s) {
  return std::max<std::int64_t>(1, std::llround(share * step_s / operation_s));
}

ExtraWork calibrated_extra_work(double share, const RankContext& context, Workload& workload,
                                const plan::Cell& cell) {
  const double step_s = time_step(context, workload, cell);
  comm::barrier(*context.group);
  const at::Device device(context.spec.device);
  ExtraWork work(operations_for(share, step_s, time_operation(context)), device);
  if (!device.is_cpu()) return work;  // the thread's own time is not the device's
  time_step(context, workload, cell, &work);
  return {operations_for(share, step_s, work.mean_operation_s()), device};
}

}  // namespace gradsync::run
