#include "harness/watch/tell/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "harness/report/trace_events.h"
#include "harness/watch/judge/steps/steps.h"

namespace gradsync::watch {

using nlohmann::json;
using report::NestingRows;
using report::Rows;
using report::TraceProcess;
using report::TraceSpan;

namespace {

struct Traced {
  explicit Traced(const RankEvents& rank) : rank(rank.rank), cut(cut_into_steps(rank.events)) {
    std::size_t complete = cut.steps.size();
    while (complete > 0 && !cut.steps[complete - 1].is_complete) --complete;
    first = complete - std::min(complete, kMostTracedSteps);
    steps = std::span(cut.steps).subspan(first, complete - first);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

  int rank;
  Steps cut;
  std::size_t first = 0;  // the number of the first one drawn
  std::span<const Step> steps;
};

struct Slice {
  std::string name;
  TraceSpan span;
  json arguments;
};

// Slices in the order of their time, of two that begin together the longer first.
class Slices {
 public:
  explicit Slices(std::int64_t origin_ns) : origin_ns_(origin_ns) {}

  void add(const std::string& name, std::int64_t start_ns, std::int64_t end_ns, json arguments) {
    start_ns -= origin_ns_;
    end_ns = std::max(end_ns - origin_ns_, start_ns + 1);  // an arrow ends inside of it
    slices_.push_back({name, {start_ns, end_ns}, std::move(arguments)});
  }

  const std::vector<Slice>& sorted() {
    std::ranges::stable_sort(slices_, [](const Slice& a, const Slice& b) {
      return std::pair(a.span.start_ns, b.span.end_ns) < std::pair(b.span.start_ns, a.span.end_ns);
    });
    return slices_;
  }

 private:
  std::int64_t origin_ns_;
  std::vector<Slice> slices_;
};

json place_or_null(const Event& event) {
  const std::string place = place_text(event.file, event.line);
  return place.empty() ? json() : json(place);
}

void add_compute_of(const std::vector<const Event*>& events, const char* name, const json& where,
                    Slices& slices) {
  for (const Event* event : events) {
    json arguments = where;
    arguments["of"] = event->name;
    arguments["place"] = place_or_null(*event);
    slices.add(name, event->start_ns, event->end_ns, std::move(arguments));
  }
}

void add_collectives_of(const std::vector<const Event*>& events, const json& where,
                        Slices& slices) {
  for (const Event* event : events) {
    json arguments = where;
    arguments["bytes"] = event->bytes < 0 ? json() : json(event->bytes);
    arguments["group"] = event->detail;
    slices.add(event->name, event->start_ns, event->end_ns, std::move(arguments));
  }
}

void add_step(const Step& step, std::size_t number, Slices& compute, Slices& communication) {
  const json of_step{{"step", number}};
  compute.add(fmt::format("step {}", number), step.start_ns, step.end_ns,
              {{"step", number},
               {"micro_batches", step.micro_batches.size()},
               {"evaluation_forwards", step.evaluation_forwards},
               {"is_skipped", step.is_skipped}});
  for (std::size_t i = 0; i < step.micro_batches.size(); ++i) {
    const MicroBatch& micro_batch = step.micro_batches[i];
    const json of_micro_batch{{"step", number}, {"micro_batch", i}};
    add_compute_of(micro_batch.forwards, "forward", of_micro_batch, compute);
    add_compute_of(micro_batch.backwards, "backward", of_micro_batch, compute);
    add_collectives_of(micro_batch.in_forward, of_micro_batch, communication);
    add_collectives_of(micro_batch.in_backward, of_micro_batch, communication);
  }
  add_compute_of(step.optimizers, "optimizer", of_step, compute);
  add_collectives_of(step.in_evaluation, of_step, communication);
  add_collectives_of(step.outside, of_step, communication);
}

// Returns how many rows it took.
int draw_compute(TraceProcess& process, Slices& slices) {
  NestingRows rows;
  for (const Slice& slice : slices.sorted()) {
    const int row = rows.place(slice.span);
    process.add_slice(report::kComputeThread + row, slice.name, slice.span, slice.arguments);
  }
  process.add_thread_names(report::kComputeThread, rows.count(), "compute");
  return rows.count();
}

void draw_communication(TraceProcess& process, Slices& slices, int first_thread, int& arrows) {
  Rows rows;
  for (const Slice& slice : slices.sorted()) {
    const int thread = first_thread + rows.place(slice.span);
    process.add_slice(thread, slice.name, slice.span, slice.arguments);
    process.add_arrow(slice.name, ++arrows, slice.span.start_ns, thread, slice.span.end_ns - 1);
  }
  process.add_thread_names(first_thread, rows.count(), "communication");
}

// Those of which a step is drawn.
std::deque<Traced> traced_ranks(const std::vector<RankEvents>& processes) {
  std::deque<Traced> ranks;
  for (const RankEvents* rank : training_processes(processes)) {
    if (ranks.emplace_back(*rank).steps.empty()) ranks.pop_back();
  }
  return ranks;
}

std::int64_t first_start_ns(const std::deque<Traced>& ranks) {
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  for (const Traced& rank : ranks) first_ns = std::min(first_ns, rank.steps.front().start_ns);
  return first_ns;
}

}  // namespace

json watch_trace(const std::vector<RankEvents>& processes) {
  const std::deque<Traced> ranks = traced_ranks(processes);
  const std::int64_t origin_ns = first_start_ns(ranks);
  json events = json::array();
  int number = 0;
  int arrows = 0;
  for (const Traced& traced : ranks) {
    TraceProcess process(events, ++number);
    process.add_process_name(traced.rank < 0 ? "a process" : fmt::format("rank {}", traced.rank));
    Slices compute(origin_ns);
    Slices communication(origin_ns);
    for (std::size_t i = 0; i < traced.steps.size(); ++i) {
      add_step(traced.steps[i], traced.first + i, compute, communication);
    }
    const int rows = draw_compute(process, compute);
    draw_communication(process, communication, report::kComputeThread + rows, arrows);
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
}

}  // namespace gradsync::watch
