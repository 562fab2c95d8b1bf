#include "harness/run/block_record.h"

#include <cstdint>
#include <string>
#include <utility>

#include "harness/measure/memory.h"

namespace gradsync::run {
namespace {

using measure::Phase;
using measure::RecordedStep;

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

// On a device a block lasts as its steps do, from the device's first mark to its last: the host's
// clock would add the start of its queue and the end of the wait for it.
double elapsed_s(const RankContext& context, const RanBlock& ran) {
  if (context.gpu == nullptr || ran.steps.empty()) return ran.block_s;
  return seconds(ran.steps.back().end_ns - ran.steps.front().start_ns);
}

void keep_steps(results::RankRecord& rank, const RanBlock& ran, const plan::Cell& cell) {
  rank.warmup_step_s = totals(ran.warmup);
  rank.step_s = totals(ran.steps);
  for (std::size_t i = 0; i < ran.steps.size(); ++i) {
    for (const Phase phase : measure::kPhases) {
      if (!has_phase(cell, phase)) continue;
      rank.phase_s[measure::kPhaseNames[static_cast<std::size_t>(phase)]].push_back(
          ran.steps[i].phase_s(phase));
    }
    rank.exposed_comm_s.push_back(exposed_s(ran.steps[i], ran.events, static_cast<int>(i)));
  }
  if (!ran.steps.empty()) {
    keep_timeline(rank, ran.steps.back(), ran.events, static_cast<int>(ran.steps.size()) - 1);
  }
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

}  // namespace

results::RankRecord block_record(const RankContext& context, const plan::Cell& cell,
                                 const RanBlock& ran) {
  results::RankRecord rank;
  rank.rank = context.rank;
  rank.node = context.node;
  keep_steps(rank, ran, cell);
  rank.block_s = elapsed_s(context, ran);
  rank.throttled_s = ran.waits.throttled_s;
  rank.memory_timeline = ran.memory_timeline;
  if (context.gpu == nullptr) {
    rank.queue_wait_s = ran.waits.queue_wait_s;
    keep_peaks(rank, measure::meter());
  } else if (!context.spec.resident) {  // or other cells are in the GPU's one account
    keep_peaks(rank, context.gpu->peaks());
  }
  return rank;
}

}  // namespace gradsync::run
