#include "harness/watch/read/foreign/device_events.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>

namespace gradsync::watch {
namespace {

using nlohmann::json;

constexpr std::string_view kKernel = "kernel";

// The launches of CUDA's runtime, per-thread streams among them, of its driver, and of ROCm.
constexpr std::array<std::string_view, 5> kGraphLaunches{"cudaGraphLaunch", "cudaGraphLaunch_ptsz",
                                                         "cuGraphLaunch", "cuGraphLaunch_ptsz",
                                                         "hipGraphLaunch"};

std::optional<std::int64_t> integer(const json& object, const char* field) {
  const json& value = value_at(object, field);
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

std::optional<std::int64_t> nanoseconds(const json& event, const char* field) {
  const json& value = value_at(event, field);
  if (!value.is_number()) return std::nullopt;
  const auto microseconds = value.get<double>();
  const bool fits = microseconds >= 0 && microseconds <= kMostMicroseconds;
  return fits ? std::optional<std::int64_t>(exact_nanoseconds(microseconds)) : std::nullopt;
}

std::string_view name_of(const json& event) {
  const json& name = value_at(event, "name");
  return name.is_string() ? std::string_view(name.get_ref<const std::string&>())
                          : std::string_view();
}

// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", before NCCL 2.19 "ncclKernel_...";
// "mscclKernel_..." of RCCL's.
bool is_of_nccl(std::string_view kernel) {
  return kernel.starts_with("nccl") || kernel.starts_with("msccl");
}

// cudaStreamSynchronize and its like of CUDA's and HIP's, and copies that end when they return.
bool waits_for_gpu(std::string_view call) {
  return call.ends_with("Synchronize") || call == "cudaMemcpy" || call == "hipMemcpy" ||
         call == "hipMemcpyWithStream";
}

}  // namespace

bool is_work(std::string_view category) {
  return category == kKernel || category == "gpu_memcpy" || category == "gpu_memset";
}

TracedWork work_of(std::string_view category, const json& event) {
  TracedWork work;
  const json& details = value_at(event, "args");
  work.correlation = integer(details, "correlation");
  work.device = integer(details, "device").value_or(0);
  work.stream = integer(details, "stream");
  const auto start_ns = nanoseconds(event, "ts");
  const auto took_ns = nanoseconds(event, "dur");
  if (start_ns && took_ns) work.ran = GpuSpan{*start_ns, *start_ns + *took_ns};
  if (category != kKernel) {
    work.kind = TracedWorkKind::Memory;
  } else if (is_of_nccl(name_of(event))) {
    work.kind = TracedWorkKind::Nccl;
    work.name = name_of(event);
  }
  return work;
}

std::optional<TracedLaunch> launch_of(std::string_view category, const json& event) {
  const bool is_of_graph =
      std::ranges::find(kGraphLaunches, name_of(event)) != kGraphLaunches.end();
  if (!is_of_graph && !category.ends_with("_runtime") && !category.ends_with("_driver")) {
    return std::nullopt;
  }
  TracedLaunch launch;
  launch.is_of_graph = is_of_graph;
  launch.correlation = integer(value_at(event, "args"), "correlation");
  const auto at_ns = nanoseconds(event, "ts");
  const auto thread = integer(event, "tid");
  if (!is_of_graph && (!launch.correlation || !at_ns || !thread)) return std::nullopt;
  launch.at_ns = at_ns.value_or(0);
  launch.end_ns = launch.at_ns + nanoseconds(event, "dur").value_or(0);
  launch.thread = thread.value_or(0);
  launch.waits_for_gpu = waits_for_gpu(name_of(event));
  return launch;
}

bool graphs_may_communicate(const TraceFile& trace) {
  std::unordered_set<std::int64_t> ran;
  std::unordered_set<std::int64_t> ran_nccl;
  for (const TracedWork& work : trace.work) {
    if (!work.correlation) continue;
    ran.insert(*work.correlation);
    if (work.kind == TracedWorkKind::Nccl) ran_nccl.insert(*work.correlation);
  }
  return std::ranges::any_of(trace.launches, [&](const TracedLaunch& launch) {
    if (!launch.is_of_graph) return false;
    return !launch.correlation || !ran.contains(*launch.correlation) ||
           ran_nccl.contains(*launch.correlation);
  });
}

}  // namespace gradsync::watch
