#include "harness/watch/read/foreign/gpu_waits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace gradsync::watch {
namespace {

using Works = std::vector<const TracedWork*>;

// What the stream that computes most ran, by time.
Works computing_stream(const Works& work) {
  std::map<std::optional<std::int64_t>, std::int64_t> computed_ns;
  for (const TracedWork* each : work) {
    if (each->kind != TracedWorkKind::OtherKernel) continue;
    computed_ns[each->stream] += each->ran->end_ns - each->ran->start_ns;
  }
  if (computed_ns.empty()) return {};
  const auto stream = std::ranges::max_element(computed_ns, {}, [](const auto& each) {
                        return each.second;
                      })->first;
  Works ran;
  for (const TracedWork* each : work) {
    if (each->stream == stream && each->kind != TracedWorkKind::Nccl) ran.push_back(each);
  }
  std::ranges::stable_sort(ran, {}, [](const TracedWork* each) { return each->ran->start_ns; });
  return ran;
}

std::vector<std::int64_t> ends_of_collectives(const Works& work) {
  std::vector<std::int64_t> ends;
  for (const TracedWork* each : work) {
    if (each->kind == TracedWorkKind::Nccl) ends.push_back(each->ran->end_ns);
  }
  std::ranges::sort(ends);
  return ends;
}

// When the host waited for the GPU, by thread and time.
using WaitsOfHost = std::map<std::int64_t, GpuSpans>;

WaitsOfHost waits_of_host(const TraceFile& trace) {
  WaitsOfHost waits;
  for (const TracedLaunch& call : trace.launches) {
    if (call.waits_for_gpu) waits[call.thread].push_back({call.at_ns, call.end_ns});
  }
  for (auto& [thread, spans] : waits) spans = merged(std::move(spans));
  return waits;
}

// Adds the parts of `gap` in which what ended it was launched already, or its host waited. null: it
// was launched before the trace.
void add_waits(GpuSpans& waits, const GpuSpan& gap, const TracedLaunch* launch,
               const WaitsOfHost& host) {
  const std::int64_t launched_ns = launch == nullptr ? gap.start_ns : launch->at_ns;
  if (launched_ns < gap.end_ns) waits.push_back({std::max(launched_ns, gap.start_ns), gap.end_ns});
  const auto thread = launch == nullptr ? host.end() : host.find(launch->thread);
  if (thread == host.end()) return;
  auto next = std::ranges::upper_bound(thread->second, gap.start_ns, {}, &GpuSpan::end_ns);
  for (; next != thread->second.end() && next->start_ns < gap.end_ns; ++next) {
    waits.push_back({std::max(next->start_ns, gap.start_ns), std::min(next->end_ns, gap.end_ns)});
  }
}

}  // namespace

const TracedLaunch* launch_of(const TracedWork& work, const LaunchByCorrelation& launches) {
  const auto found = work.correlation ? launches.find(*work.correlation) : launches.end();
  return found == launches.end() ? nullptr : found->second;
}

GpuSpans waits_for_collectives(const Works& work, const TraceFile& trace,
                               const LaunchByCorrelation& launches) {
  const std::vector<std::int64_t> ends = ends_of_collectives(work);
  const WaitsOfHost host = waits_of_host(trace);
  GpuSpans waits;
  std::optional<std::int64_t> free_ns;
  for (const TracedWork* next : computing_stream(work)) {
    const auto behind = std::ranges::upper_bound(ends, next->ran->start_ns);
    if (free_ns && behind != ends.begin() && *std::prev(behind) > *free_ns) {
      add_waits(waits, {*free_ns, *std::prev(behind)}, launch_of(*next, launches), host);
    }
    free_ns = std::max(free_ns.value_or(next->ran->end_ns), next->ran->end_ns);
  }
  return merged(std::move(waits));
}

}  // namespace gradsync::watch
