#include "harness/run/block.h"

#include <algorithm>

#include "harness/comm/process_groups.h"
#include "harness/measure/memory.h"
#include "harness/plan/strategies.h"
#include "harness/run/block_record.h"
#include "harness/run/expectation.h"
#include "harness/run/extra_work.h"
#include "harness/run/gradient_account.h"
#include "harness/run/memory_recording.h"
#include "harness/run/repetition.h"
#include "harness/run/trained_parameters.h"
#include "harness/sync/backward.h"
#include "models/batch_norm.h"

namespace gradsync::run {
namespace {

using measure::Phase;
using measure::RecordedStep;

// Warm-up steps count from -warmup to -1 in the ledger, timed ones from 0. `memory`, if any,
// records one of them: the last but one, so that what recording costs is made up for before another
// step begins to count; of a single step, that. `extra`, if any, is done in each.
std::vector<RecordedStep> run_steps(const RankContext& context, sync::Strategy& strategy,
                                    sync::Training& training, const std::vector<int>& windows,
                                    int first_step, MemoryRecording* memory, ExtraWork* extra) {
  context.recorder.begin_block();
  const std::size_t recorded_step = windows.size() < 2 ? 0 : windows.size() - 2;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    training.step = first_step + static_cast<int>(i);
    const bool recorded = memory != nullptr && i == recorded_step;
    if (recorded) memory->begin(training.step);
    strategy.step(training, windows[i]);
    if (recorded) memory->end();
    if (extra != nullptr) {
      context.recorder.enter(Phase::Optimizer);
      extra->run();
    }
    context.recorder.end_step();
  }
  context.ledger.set_place(-1, -1);
  context.recorder.end_block();
  return context.recorder.steps();
}

// Each layer's in its turn. Blocks: until the device has them.
std::optional<results::RunningStatistics> running_statistics(const models::Model& model) {
  const auto layers = models::batch_norms_of(model);
  if (layers.empty()) return std::nullopt;
  results::RunningStatistics statistics;
  const auto append = [](std::vector<double>& to, const at::Tensor& values) {
    const at::Tensor numbers = values.to(at::kCPU, at::kDouble);
    to.insert(to.end(), numbers.data_ptr<double>(), numbers.data_ptr<double>() + numbers.numel());
  };
  for (const auto& layer : layers) {
    append(statistics.mean, layer->running_mean);
    append(statistics.variance, layer->running_var);
  }
  return statistics;
}

// From here on a device's marks are those of one block. What torch still holds of collectives
// before it is let go in the next one.
void begin_on(comm::Gpu& gpu) {
  gpu.finish_collectives();
  gpu.forget();
}

// From here on peaks are those of the timed steps.
void reset_peaks(comm::Gpu* gpu) {
  measure::meter().reset_peak();
  if (gpu != nullptr) gpu->reset_peaks();
}

// A cold start (as_published) has one bucket in its first synchronized micro-batch and rebuilds in
// the forward after it: these steps are timed, as the guide timed them, and not checked.
constexpr std::size_t kColdSteps = 2;

// Every timed step is checked; the one reported is the first of full length. `repetition`: what did
// not run; null: everything did.
results::LedgerRecord check_ledger(const Workload& workload, const plan::Cell& cell,
                                   const std::vector<int>& windows, std::size_t first_checked,
                                   const std::vector<comm::CommEvent>& events,
                                   const Repetition* repetition) {
  results::LedgerRecord record;
  const auto reductions = workload.wrapper().reduction_bytes();
  record.buckets = static_cast<int>(reductions.size());
  record.mismatch = missing_gradients(reductions, workload.wrapper().gradient_bytes());
  record.matches = record.mismatch.empty();
  bool reported = false;
  for (std::size_t i = std::min(first_checked, windows.size() - 1); i < windows.size(); ++i) {
    const int step = static_cast<int>(i);
    const auto declared =
        workload.wrapper().declared(plan::declared_syncs(cell.wrapper, cell.strategy, windows[i]));
    const PassedOver passed_over =
        repetition == nullptr ? PassedOver{} : repetition->passed_over_in(step);
    if (record.matches) {
      record.mismatch = first_mismatch(declared, events, step, passed_over);
      record.matches = record.mismatch.empty();
    }
    const bool full = windows[i] == cell.accumulation_steps;
    if (reported || (!full && i + 1 < windows.size())) continue;
    record.per_step = counts_of_step(events, step, declared, passed_over);
    record.declared_micro_batches = passed_over.count();
    record.expected = expected_of_step(declared);
    reported = true;
  }
  return record;
}

// Whether the values of this rank's parameters mean anything.
bool computes(const RankContext& context, Workload& workload) {
  return context.spec.backend != "fake" && !context.spec.paper && !workload.paced();
}

// Null: every micro-batch of the trial runs.
std::unique_ptr<Repetition> repetition_of(const RankContext& context, Workload& workload,
                                          const plan::Trial& trial) {
  if (!why_all_run(context, workload, trial).empty()) return nullptr;
  const plan::Cell& cell = trial.cell;
  return std::make_unique<Repetition>(
      context.ledger,
      workload.wrapper().declared(
          plan::declared_syncs(cell.wrapper, cell.strategy, cell.accumulation_steps)),
      [&context](bool yes) { return context.agreement.all_say(yes); });
}

// Returns the distance to rank 0's parameters after each of trial.distance_steps more steps, which
// begin with the same ones on all ranks; nothing where there is none to tell. Collective.
std::vector<double> distances_of(const RankContext& context, Workload& workload,
                                 sync::Strategy& strategy, sync::Training& training,
                                 const plan::Trial& trial) {
  const sync::Wrapper& model = workload.wrapper();
  const bool comparable =
      computes(context, workload) && model.replicates() && context.world_size > 1;
  if (trial.distance_steps == 0 || !comparable) return {};
  std::vector<double> distances;
  start_alike(model, *context.group);
  context.recorder.begin_block();
  training.step = -1;
  for (int i = 0; i < trial.distance_steps; ++i) {
    strategy.step(training, trial.cell.accumulation_steps);
    context.recorder.end_step();
    context.ledger.set_place(-1, -1);
    distances.push_back(parameter_distance(model, *context.group));
  }
  context.recorder.end_block();
  return distances;
}

// Micro-batches of each step, before the clock starts and under it.
struct Windows {
  std::vector<int> warmup;
  std::vector<int> timed;
};

Windows windows_of(const RankContext& context, const plan::Trial& trial) {
  const int accumulation = trial.cell.accumulation_steps;
  return {std::vector<int>(static_cast<std::size_t>(trial.warmup_steps), accumulation),
          window_micro_batches(trial.steps, accumulation, context.spec.as_published,
                               plan::find_strategy(trial.cell.strategy).short_window_last)};
}

// Nothing of the block before is seen in the one that begins. Collective.
void begin_afresh(const RankContext& context) {
  context.ledger.settle(context.spec.timeout_s);
  context.ledger.clear();
  if (context.gpu != nullptr) begin_on(*context.gpu);
  sync::loss_watch().clear();
  measure::meter().set_place(-1, -1, "");  // not where the block before it ended
  comm::barrier(*context.group);
}

// No timed step pays for the recording: where none is warmed up, none is timed, but as published.
RanBlock run_windows(const RankContext& context, sync::Strategy& strategy, sync::Training& training,
                     const Windows& windows, const plan::Trial& trial, ExtraWork* extra) {
  MemoryRecording memory(context, trial);
  const bool in_timed_step = windows.warmup.empty() && !context.spec.as_published;
  RanBlock ran;
  ran.warmup = run_steps(context, strategy, training, windows.warmup, -1 - trial.warmup_steps,
                         &memory, extra);
  reset_peaks(context.gpu);
  const CpuWaitMeter waits;
  const std::int64_t block_start_ns = context.clock.now_ns();
  ran.steps = run_steps(context, strategy, training, windows.timed, 0,
                        in_timed_step ? &memory : nullptr, extra);
  ran.block_s = seconds(context.clock.now_ns() - block_start_ns);
  ran.waits = waits.since_start();
  context.ledger.settle(context.spec.timeout_s);
  ran.events = context.ledger.events();
  ran.memory_timeline = memory.points();
  return ran;
}

// Why the numbers of a block cannot stand; "": they can.
std::string why_invalid(const RankContext& context, Workload& workload, const Windows& windows,
                        const RanBlock& ran, const results::LedgerRecord& ledger) {
  if (!ledger.matches) return "ledger: " + ledger.mismatch;
  std::string why = first_mistiming(ran.steps, windows.timed.size(), ran.block_s);
  if (!why.empty() || !computes(context, workload)) return why;
  return non_finite_values(workload.wrapper(), sync::loss_watch().first_non_finite(),
                           windows.warmup, windows.timed);
}

}  // namespace

BlockResult run_block(const RankContext& context, Workload& workload, const plan::Trial& trial,
                      ExtraWork* extra) {
  const auto strategy = sync::make_strategy(trial.cell.strategy);
  const Windows windows = windows_of(context, trial);
  sync::Training training = workload.training(context);
  training.accumulation_steps = trial.cell.accumulation_steps;
  workload.data().restart();
  const auto repetition = repetition_of(context, workload, trial);
  if (repetition) {
    training.repeats = [&](int i) { return repetition->passes_over(training.step, i); };
  }
  begin_afresh(context);
  const RanBlock ran = run_windows(context, *strategy, training, windows, trial, extra);
  training.repeats = nullptr;

  BlockResult result;
  result.rank = block_record(context, trial.cell, ran);
  result.ledger =
      check_ledger(workload, trial.cell, windows.timed, context.spec.as_published ? kColdSteps : 0,
                   ran.events, repetition.get());
  if (computes(context, workload) && repetition == nullptr) {
    result.rank.running_statistics = running_statistics(training.model.module());
  }
  result.invalid = why_invalid(context, workload, windows, ran, result.ledger);
  result.rank.parameter_distance = distances_of(context, workload, *strategy, training, trial);
  result.account_why_not = why_no_account(context, trial, repetition != nullptr);
  if (result.account_why_not.empty()) {
    result.account = account_step(context, workload, *strategy, trial);
  }
  return result;
}

}  // namespace gradsync::run
