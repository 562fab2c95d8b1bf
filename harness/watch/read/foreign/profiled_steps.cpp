#include "harness/watch/read/foreign/profiled_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/whole_file.h"
#include "harness/watch/read/foreign/nccl_kernels.h"
#include "harness/watch/read/foreign/traced_collectives.h"

namespace gradsync::watch {
namespace {

constexpr const char* kNoKernels =
    "its trace has no work of a GPU: CUPTI may be in use by another profiler, or not permitted "
    "(NVreg_RestrictProfilingToAdminUsers)";

struct Pair {
  Event* seen;
  const Event* traced;
};

// c10d's alone: what NCCL was called for besides, or launched by a graph, has not returned.
bool is_of_c10d(const Event& event) {
  return event.kind == EventKind::Collective && event.issued_ns != 0;
}

// Returns them by thread and time.
template <typename SomeEvent>
std::map<std::int64_t, std::vector<SomeEvent*>> by_thread(std::vector<SomeEvent*> events) {
  std::ranges::stable_sort(events, {}, [](const Event* event) { return event->start_ns; });
  std::map<std::int64_t, std::vector<SomeEvent*>> threads;
  for (SomeEvent* event : events) threads[event->thread].push_back(event);
  return threads;
}

// Returns the same collectives in both; nothing where they do not agree on a thread of the trace.
std::optional<std::vector<Pair>> paired(RankEvents& rank, const std::vector<Event>& traced) {
  std::vector<Event*> in_window;
  for (Event& event : rank.events) {
    const bool is_recorded =
        rank.profiled->start_ns <= event.start_ns && event.start_ns <= rank.profiled->end_ns;
    if (is_of_c10d(event) && is_recorded) in_window.push_back(&event);
  }
  std::vector<const Event*> of_trace;
  for (const Event& event : traced) {
    if (is_of_c10d(event)) of_trace.push_back(&event);
  }
  const auto seen = by_thread(std::move(in_window));
  std::vector<Pair> pairs;
  for (const auto& [thread, theirs] : by_thread(std::move(of_trace))) {
    const auto ours = seen.find(thread);
    const auto is_alike = [](const Event* a, const Event* b) { return a->name == b->name; };
    if (ours == seen.end() || !std::ranges::equal(ours->second, theirs, is_alike)) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < theirs.size(); ++i) pairs.push_back({ours->second[i], theirs[i]});
  }
  return pairs;
}

// Returns how far the clock of the trace is ahead of the watcher's.
std::int64_t clock_ahead_ns(const std::vector<Pair>& pairs) {
  std::vector<std::int64_t> ahead_ns;
  for (const Pair& pair : pairs) ahead_ns.push_back(pair.traced->start_ns - pair.seen->start_ns);
  const auto middle = ahead_ns.begin() + std::ssize(ahead_ns) / 2;
  std::ranges::nth_element(ahead_ns, middle);
  return *middle;
}

// Returns the steps that count: from when the first recorded one ended to when the last one did.
// The recording begins and ends within an optimizer's range.
std::optional<GpuSpan> counted_span(const RankEvents& rank) {
  std::optional<GpuSpan> span;
  for (const Event& event : rank.events) {
    if (event.kind != EventKind::OptimizerStep || event.start_ns < rank.profiled->start_ns)
      continue;
    if (event.start_ns > rank.profiled->end_ns) break;
    if (!span) span = GpuSpan{event.end_ns, event.end_ns};
    span->end_ns = event.end_ns;
  }
  return span;
}

CollectiveOnGpu moved(CollectiveOnGpu on_gpu, std::int64_t by_ns) {
  on_gpu.ran.start_ns += by_ns;
  on_gpu.ran.end_ns += by_ns;
  return on_gpu;
}

// Returns why there is nothing to add; "" where it was added.
std::string add(RankEvents& rank, const TraceFile& trace) {
  Known<TracedGpu> gpu = traced_gpu(trace);
  if (!gpu) return gpu.why_not().empty() ? kNoKernels : "its trace does not say " + gpu.why_not();
  TracedCollectives collectives(trace);
  for (const TracedRange& range : trace.ranges) collectives.see(range);
  collectives.take_kernels(gpu->kernels);
  const std::vector<Event> traced = collectives.finish(rank.world_size);
  const auto pairs = paired(rank, traced);
  const auto counted = counted_span(rank);
  if (!pairs) return "the collectives of its trace are not those that the watcher saw";
  if (pairs->empty() || !counted) {
    return "in the recorded steps nothing of c10d communicated, as where CUDA graphs do";
  }
  const std::int64_t ahead_ns = clock_ahead_ns(*pairs);
  for (const Pair& pair : *pairs) {
    if (!pair.traced->on_gpu || pair.seen->start_ns < counted->start_ns) continue;
    pair.seen->on_gpu = moved(*pair.traced->on_gpu, -ahead_ns);
  }
  rank.gpu = std::move(gpu->work);
  shift(*rank.gpu, -ahead_ns);
  rank.gpu->recorded = *counted;
  return "";
}

void add_fault(RankEvents& rank, const std::string& why_not) {
  if (!why_not.empty()) rank.faults.push_back("no seconds of its GPU: " + why_not);
}

}  // namespace

void add_profiled_steps(RankEvents& rank, const TraceFile& trace) {
  add_fault(rank, add(rank, trace));
}

void add_profiled_steps(std::vector<RankEvents>& ranks, const std::string& directory) {
  for (RankEvents& rank : ranks) {
    if (!rank.profiled) continue;
    const std::string path =
        (std::filesystem::path(directory) / fmt::format("seconds-{}.json", rank.pid)).string();
    try {
      add_profiled_steps(rank, parse_trace(whole_file(path), path));
    } catch (const ConfigError& error) {
      add_fault(rank, error.what());
    }
  }
}

}  // namespace gradsync::watch
