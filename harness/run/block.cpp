#include "harness/run/block.h"

#include <algorithm>

#include "harness/base/errors.h"
#include "harness/comm/process_groups.h"
#include "harness/measure/exposed.h"
#include "harness/measure/memory.h"
#include "harness/plan/strategies.h"
#include "harness/run/cpu_waits.h"
#include "harness/run/expectation.h"
#include "harness/run/extra_work.h"
#include "harness/run/gradient_account.h"
#include "harness/run/memory_recording.h"
#include "harness/run/repetition.h"
#include "harness/run/trained_parameters.h"
#include "harness/run/window_rule.h"
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

std::vector<double> totals(const std::vector<RecordedStep>& steps) {
  std::vector<double> seconds;
  for (const RecordedStep& step : steps) seconds.push_back(step.total_s());
  return seconds;
}

double exposed_s(const RecordedStep& step, const std::vector<comm::CommEvent>& events, int index) {
  std::vector<measure::Span> communication;
  std::vector<measure::Span> waiting;
  for (const comm::CommEvent& event : events) {
    if (event.step == index) communication.emplace_back(event.start_ns, event.end_ns);
  }
  for (const measure::PhaseInterval& interval : step.intervals) {
    if (interval.phase == Phase::Wait) waiting.emplace_back(interval.start_ns, interval.end_ns);
  }
  return seconds(measure::exposed_ns(std::move(communication), std::move(waiting)));
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

// The last timed step as an example, in seconds since it began, and when that was.
void keep_timeline(results::RankRecord& rank, const RecordedStep& step,
                   const std::vector<comm::CommEvent>& events, int index) {
  const auto since = [&](std::int64_t ns) { return seconds(ns - step.start_ns); };
  rank.timeline_start_s = seconds(step.start_ns);
  for (const comm::CommEvent& event : events) {
    if (event.step != index) continue;
    rank.timeline_events.push_back({event.op, event.bytes, event.micro_batch, event.bucket,
                                    since(event.start_ns), since(event.end_ns)});
  }
  for (const measure::PhaseInterval& interval : step.intervals) {
    rank.timeline_phases.push_back({measure::kPhaseNames[static_cast<std::size_t>(interval.phase)],
                                    interval.micro_batch, since(interval.start_ns),
                                    since(interval.end_ns)});
  }
}

// Whether a step makes copies in other types than it stores.
bool casts(const plan::Cell& cell) {
  const auto differs = [&cell](const std::string& dtype) { return dtype != cell.dtype; };
  if (cell.wrapper == "fsdp") return differs(cell.param_dtype) || differs(cell.reduce_dtype);
  return cell.master_weights;
}

// Phases that only some levers bring.
bool has_phase(const plan::Cell& cell, Phase phase) {
  if (phase == Phase::Recompute) return cell.activation_checkpointing > 0;
  if (phase == Phase::Offload) return cell.offload != "none";
  return phase != Phase::Cast || casts(cell);
}

results::RankRecord rank_record(const RankContext& context, const std::vector<RecordedStep>& steps,
                                const std::vector<comm::CommEvent>& events, double block_s,
                                const plan::Cell& cell) {
  results::RankRecord rank;
  rank.rank = context.rank;
  rank.node = context.node;
  rank.step_s = totals(steps);
  rank.block_s = block_s;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const Phase phase : measure::kPhases) {
      if (!has_phase(cell, phase)) continue;
      rank.phase_s[measure::kPhaseNames[static_cast<std::size_t>(phase)]].push_back(
          steps[i].phase_s(phase));
    }
    rank.exposed_comm_s.push_back(exposed_s(steps[i], events, static_cast<int>(i)));
  }
  if (!steps.empty()) {
    keep_timeline(rank, steps.back(), events, static_cast<int>(steps.size()) - 1);
  }
  return rank;
}

// On a device a block lasts as its steps do, from the device's first mark to its last: the host's
// clock would add the start of its queue and the end of the wait for it.
double elapsed_s(const RankContext& context, const std::vector<RecordedStep>& steps,
                 double block_s) {
  if (context.gpu == nullptr || steps.empty()) return block_s;
  return seconds(steps.back().end_ns - steps.front().start_ns);
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

void keep_peaks(results::RankRecord& rank, const comm::MemoryPeaks& peaks) {
  rank.peak_allocated_bytes = peaks.allocated_bytes;
  rank.peak_reserved_bytes = peaks.reserved_bytes;
}

// Since the meter's peak was reset: of the timed steps. Without a meter they stay unknown.
void keep_peaks(results::RankRecord& rank, const measure::MemoryMeter& meter) {
  if (!meter.installed()) return;
  if (const measure::HeldMemory host = meter.host(); host.peak_bytes > 0) {
    rank.host_peak_allocated_bytes = host.peak_bytes;
    rank.host_peak_by_category = measure::by_name(host.peak);
  }
  rank.peak_allocated_bytes = meter.peak_bytes();
  rank.peak_by_category = measure::by_name(meter.peak_by_category());
  rank.peak_reserved_estimate_bytes = meter.peak_reserved_estimate_bytes();
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
  return context.spec.backend != "fake" && !workload.paced();
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

// Returns the distance to rank 0's parameters after each of `steps` more steps, which begin with
// the same ones on all ranks; nothing where there is none to tell. Collective.
std::vector<double> distances_of(const RankContext& context, Workload& workload,
                                 sync::Strategy& strategy, sync::Training& training, int steps,
                                 int accumulation_steps) {
  const sync::Wrapper& model = workload.wrapper();
  const bool comparable =
      computes(context, workload) && model.replicates() && context.world_size > 1;
  if (steps == 0 || !comparable) return {};
  std::vector<double> distances;
  start_alike(model, *context.group);
  context.recorder.begin_block();
  training.step = -1;
  for (int i = 0; i < steps; ++i) {
    strategy.step(training, accumulation_steps);
    context.recorder.end_step();
    context.ledger.set_place(-1, -1);
    distances.push_back(parameter_distance(model, *context.group));
  }
  context.recorder.end_block();
  return distances;
}

}  // namespace

BlockResult run_block(const RankContext& context, Workload& workload, const plan::Trial& trial,
                      ExtraWork* extra) {
  const auto strategy = sync::make_strategy(trial.cell.strategy);
  const int accumulation = trial.cell.accumulation_steps;
  const std::vector<int> warmup(static_cast<std::size_t>(trial.warmup_steps), accumulation);
  const std::vector<int> windows =
      window_micro_batches(trial.steps, accumulation, context.spec.as_published,
                           plan::find_strategy(trial.cell.strategy).short_window_last);
  sync::Training training = workload.training(context);
  training.accumulation_steps = accumulation;
  workload.data().restart();
  const auto repetition = repetition_of(context, workload, trial);
  if (repetition) {
    training.repeats = [&](int i) { return repetition->passes_over(training.step, i); };
  }
  context.ledger.settle(context.spec.timeout_s);
  context.ledger.clear();
  if (context.gpu != nullptr) begin_on(*context.gpu);
  sync::loss_watch().clear();
  measure::meter().set_place(-1, -1, "");  // not where the block before it ended
  comm::barrier(*context.group);

  // No timed step pays for the recording: where none is warmed up, none is timed, but as published.
  MemoryRecording memory(context, trial);
  const bool in_timed_step = warmup.empty() && !context.spec.as_published;
  const auto warmup_steps =
      run_steps(context, *strategy, training, warmup, -1 - trial.warmup_steps, &memory, extra);
  reset_peaks(context.gpu);
  const CpuWaitMeter waits;
  const std::int64_t block_start_ns = context.clock.now_ns();
  const auto steps =
      run_steps(context, *strategy, training, windows, 0, in_timed_step ? &memory : nullptr, extra);
  const double block_s = seconds(context.clock.now_ns() - block_start_ns);
  const CpuWaits waited = waits.since_start();
  training.repeats = nullptr;
  context.ledger.settle(context.spec.timeout_s);

  const auto events = context.ledger.events();
  BlockResult result;
  result.rank = rank_record(context, steps, events, elapsed_s(context, steps, block_s), trial.cell);
  result.rank.warmup_step_s = totals(warmup_steps);
  result.rank.throttled_s = waited.throttled_s;
  if (context.gpu == nullptr) result.rank.queue_wait_s = waited.queue_wait_s;
  result.rank.memory_timeline = memory.points();
  if (context.gpu == nullptr) {
    keep_peaks(result.rank, measure::meter());
  } else if (!context.spec.resident) {  // or other cells are in the GPU's one account
    keep_peaks(result.rank, context.gpu->peaks());
  }
  result.ledger =
      check_ledger(workload, trial.cell, windows, context.spec.as_published ? kColdSteps : 0,
                   events, repetition.get());
  result.invalid = result.ledger.matches ? first_mistiming(steps, windows.size(), block_s)
                                         : "ledger: " + result.ledger.mismatch;
  if (computes(context, workload) && repetition == nullptr) {
    result.rank.running_statistics = running_statistics(training.model.module());
  }
  if (result.invalid.empty() && computes(context, workload)) {
    result.invalid = non_finite_values(workload.wrapper(), sync::loss_watch().first_non_finite(),
                                       warmup, windows);
  }
  result.rank.parameter_distance =
      distances_of(context, workload, *strategy, training, trial.distance_steps, accumulation);
  result.account_why_not = why_no_account(context, trial, repetition != nullptr);
  if (result.account_why_not.empty()) {
    result.account = account_step(context, workload, *strategy, trial);
  }
  return result;
}

}  // namespace gradsync::run
