#include "harness/report/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/report/trace_events.h"
#include "harness/summary/attribution.h"
#include "harness/summary/cell_group.h"

namespace gradsync::report {

using nlohmann::json;
using results::MemoryTimelinePoint;
using results::RankRecord;
using results::TimelineEvent;
using results::TimelinePhase;
using results::TrialRecord;
using summary::CellGroup;
using summary::CollectiveParts;
using summary::HostClocks;
using summary::RankParts;

namespace {

constexpr int kFirstCommunicationThread = kComputeThread + 1;

std::int64_t whole_ns(double at_s) {
  return std::llround(at_s * 1e9);
}

// The process of one rank, whose times count from the begin of its step.
class RankTrace : public TraceProcess {
 public:
  RankTrace(json& events, int process, double start_s)
      : TraceProcess(events, process), start_s_(start_s) {}

  TraceSpan span(double start_s, double end_s) const {
    return {whole_ns(start_s_ + start_s), whole_ns(start_s_ + end_s)};
  }

 private:
  double start_s_;
};

std::string event_name(const TimelineEvent& event) {
  return event.bucket < 0 ? event.op : fmt::format("{} bucket {}", event.op, event.bucket);
}

void add_compute(RankTrace& trace, const RankRecord& rank, json about_step) {
  trace.add_thread_name(kComputeThread, "compute");
  trace.add_slice(kComputeThread, "step", trace.span(0, rank.step_s.back()), std::move(about_step));
  for (const TimelinePhase& phase : rank.timeline_phases) {
    trace.add_slice(kComputeThread, phase.phase, trace.span(phase.start_s, phase.end_s),
                    {{"micro_batch", phase.micro_batch}});
  }
}

// Divides the slice of a collective where some rank issued it later than this one.
void add_lateness(RankTrace& trace, const CollectiveParts& parts, const TraceSpan& span,
                  int thread) {
  const std::int64_t all_issued_ns = trace.span(0, parts.all_issued_s).end_ns;
  if (all_issued_ns <= span.start_ns) return;
  const std::int64_t late_until_ns = std::min(all_issued_ns, span.end_ns);
  trace.add_slice(thread, fmt::format("late: rank {}", parts.last_rank),
                  {span.start_ns, late_until_ns}, json::object());
  if (late_until_ns == span.end_ns) return;
  trace.add_slice(thread, "issued by all", {late_until_ns, span.end_ns}, json::object());
}

// `parts` is null where it is not known what the collective waited for.
void add_collective(RankTrace& trace, const TimelineEvent& event, const CollectiveParts* parts,
                    const TraceSpan& span, int thread, int number) {
  const std::string name = event_name(event);
  json arguments = {{"micro_batch", event.micro_batch}, {"bytes", event.bytes}};
  if (parts != nullptr) {
    for (const results::TimePart& part : results::kTimeParts) {
      const double part_s = parts->parts.*part.seconds;
      if (part_s > 0 || part.shown != results::PartShown::WhereSome) arguments[part.field] = part_s;
    }
  }
  trace.add_slice(thread, name, span, std::move(arguments));
  if (parts != nullptr) add_lateness(trace, *parts, span, thread);
  trace.add_arrow(name, number, span.start_ns, thread, span.end_ns - 1);
}

void add_communication(RankTrace& trace, const RankRecord& rank, const RankParts* parts,
                       int& arrows) {
  Rows rows;
  for (std::size_t i = 0; i < rank.timeline_events.size(); ++i) {
    const TimelineEvent& event = rank.timeline_events[i];
    TraceSpan span = trace.span(event.start_s, event.end_s);
    span.end_ns = std::max(span.end_ns, span.start_ns + 1);  // an arrow ends inside of it
    const int thread = kFirstCommunicationThread + rows.place(span);
    const CollectiveParts* collective = parts == nullptr ? nullptr : &parts->collectives[i];
    add_collective(trace, event, collective, span, thread, ++arrows);
  }
  trace.add_thread_names(kFirstCommunicationThread, rows.count(), "communication");
}

// A category that holds nothing any more is 0 there: a counter that is not named keeps its value.
void add_memory(RankTrace& trace, const std::vector<MemoryTimelinePoint>& timeline) {
  json none = json::object();
  for (const MemoryTimelinePoint& point : timeline) {
    for (const auto& [category, bytes] : point.bytes) none[category] = 0;
  }
  for (const MemoryTimelinePoint& point : timeline) {
    json held = none;
    held.update(json(point.bytes));
    trace.add_counter("memory", trace.span(point.at_s, point.at_s).start_ns, std::move(held));
  }
}

// What tells the cell from the others of its part; the slice of its step has the whole cell.
std::string cell_name(const CellGroup& group) {
  const auto& cell = group.cell;
  return fmt::format("{}{} {} {} ", group.part.empty() ? "" : group.part + " ", cell.topology(),
                     cell.model(), cell.strategy());
}

bool has_timeline(const RankRecord& rank) {
  return !rank.step_s.empty() && !rank.timeline_phases.empty();
}

// What rank 0 held over a step of the last trial that recorded it; nothing where none did.
std::vector<MemoryTimelinePoint> memory_of(const std::vector<const TrialRecord*>& trials,
                                           const results::TimelinesFile& timelines) {
  for (auto trial = trials.rbegin(); trial != trials.rend(); ++trial) {
    std::vector<MemoryTimelinePoint> points = timelines.memory_of(**trial);
    if (!points.empty()) return points;
  }
  return {};
}

// Adds the last of the cell's trials that ended well.
void add_cell(json& events, const CellGroup& group, const std::vector<const TrialRecord*>& ok,
              const HostClocks& clocks, const results::TimelinesFile& timelines, int& processes,
              int& arrows) {
  const TrialRecord& trial = *ok.back();
  std::string unaligned;
  const std::vector<double> starts_s = summary::step_starts_s(trial, clocks, unaligned);
  const summary::AttributedStep parts = summary::attribute_step(trial, clocks);
  for (std::size_t i = 0; i < trial.ranks.size(); ++i) {
    const RankRecord& rank = trial.ranks[i];
    if (!has_timeline(rank)) continue;
    const RankParts* known = parts.ranks.empty() ? nullptr : &parts.ranks[i];
    RankTrace trace(events, ++processes, starts_s.empty() ? 0 : starts_s[i]);
    trace.add_process_name(fmt::format("{}rank {}", cell_name(group), rank.rank));
    add_compute(trace, rank,
                {{"part", group.part},
                 {"cell", group.cell.written()},
                 {"launch", trial.launch},
                 {"round", trial.round},
                 {"step", rank.step_s.size() - 1}});
    add_communication(trace, rank, known, arrows);
    if (rank.rank == 0) add_memory(trace, memory_of(ok, timelines));
  }
}

}  // namespace

json trace_json(const results::Context& context, const std::vector<TrialRecord>& trials,
                const results::TimelinesFile& timelines) {
  const HostClocks clocks(context);
  json events = json::array();
  int processes = 0;
  int arrows = 0;
  for (const CellGroup& group : summary::group_by_cell({}, trials, {})) {
    const auto ok = group.ok_trials();
    if (!ok.empty()) add_cell(events, group, ok, clocks, timelines, processes, arrows);
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
}

}  // namespace gradsync::report
