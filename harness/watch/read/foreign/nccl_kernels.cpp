#include "harness/watch/read/foreign/nccl_kernels.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/watch/read/foreign/gpu_waits.h"

namespace gradsync::watch {
namespace {

LaunchByCorrelation launches_of(const TraceFile& trace) {
  LaunchByCorrelation launches;
  for (const TracedLaunch& launch : trace.launches) {
    if (launch.correlation) launches.emplace(*launch.correlation, &launch);
  }
  return launches;
}

// The GPUs that run NCCL's kernels or, where none does, the one that runs most.
std::set<std::int64_t> devices_of(const TraceFile& trace) {
  std::map<std::int64_t, int> counts;
  std::set<std::int64_t> of_nccl;
  for (const TracedWork& work : trace.work) {
    ++counts[work.device];
    if (work.kind == TracedWorkKind::Nccl) of_nccl.insert(work.device);
  }
  if (!of_nccl.empty() || counts.empty()) return of_nccl;
  return {
      std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first};
}

std::vector<const TracedWork*> work_on(const TraceFile& trace, std::int64_t device) {
  std::vector<const TracedWork*> all;
  for (const TracedWork& work : trace.work) {
    if (work.device == device) all.push_back(&work);
  }
  return all;
}

GpuWork summed(const std::vector<const TracedWork*>& all) {
  GpuSpans communication;
  GpuSpans computation;
  GpuSpans any;
  for (const TracedWork* work : all) {
    any.push_back(*work->ran);
    if (work->kind == TracedWorkKind::Nccl) communication.push_back(*work->ran);
    if (work->kind == TracedWorkKind::OtherKernel) computation.push_back(*work->ran);
  }
  return gpu_work(std::move(communication), std::move(computation), std::move(any));
}

void add_progress(GpuWork& gpu, const std::vector<const TracedWork*>& all,
                  const LaunchByCorrelation& launches) {
  for (const TracedWork* work : all) {
    if (const TracedLaunch* launch = launch_of(*work, launches)) {
      gpu.progress.push_back({launch->at_ns, work->ran->end_ns});
    }
  }
  std::ranges::sort(gpu.progress, {}, &GpuProgress::launched_ns);
  for (std::size_t i = 1; i < gpu.progress.size(); ++i) {
    gpu.progress[i].done_ns = std::max(gpu.progress[i].done_ns, gpu.progress[i - 1].done_ns);
  }
}

std::vector<NcclKernel> kernels_of(std::vector<const TracedWork*> all, const GpuWork& gpu,
                                   const LaunchByCorrelation& launches) {
  std::erase_if(all, [](const TracedWork* work) { return work->kind != TracedWorkKind::Nccl; });
  std::ranges::stable_sort(all, {}, [](const TracedWork* work) { return work->ran->start_ns; });
  std::vector<NcclKernel> kernels;
  std::int64_t counted_until_ns = 0;
  for (const TracedWork* work : all) {
    const GpuSpan own{std::max(work->ran->start_ns, counted_until_ns), work->ran->end_ns};
    counted_until_ns = std::max(counted_until_ns, own.end_ns);
    const TracedLaunch* launch = launch_of(*work, launches);
    if (launch == nullptr) continue;
    const std::int64_t own_ns = std::max<std::int64_t>(0, own.end_ns - own.start_ns);
    kernels.push_back(
        {launch,
         work->name,
         {*work->ran, own_ns - covered_ns(gpu.computation, own), covered_ns(gpu.waited, own)}});
  }
  std::ranges::stable_sort(kernels, {},
                           [](const NcclKernel& kernel) { return kernel.launch->at_ns; });
  return kernels;
}

}  // namespace

Known<TracedGpu> traced_gpu(const TraceFile& trace) {
  if (trace.work.empty()) return Unknown{""};
  const std::set<std::int64_t> devices = devices_of(trace);
  if (devices.size() > 1) return Unknown{"which of its several GPUs waits for which"};
  const std::vector<const TracedWork*> all = work_on(trace, *devices.begin());
  if (!std::ranges::all_of(all, [](const TracedWork* work) { return work->ran.has_value(); })) {
    return Unknown{"when some of what its GPU ran did so"};
  }
  const LaunchByCorrelation launches = launches_of(trace);
  TracedGpu gpu;
  gpu.work = summed(all);
  gpu.work.waited = intersection(gpu.work.waited, waits_for_collectives(all, trace, launches));
  add_progress(gpu.work, all, launches);
  gpu.kernels = kernels_of(all, gpu.work, launches);
  return gpu;
}

}  // namespace gradsync::watch
