// Which of a trace's collectives each kernel of NCCL's is.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "harness/watch/read/foreign/traced_collectives.h"

namespace gradsync::watch {
namespace {

// Names parts of ProcessGroupNCCL's ranges ("nccl:_all_gather_base") and of NCCL's own kernels
// ("ncclDevKernel_AllGather_RING_LL"). Longer names stand before those that they contain.
struct OperationName {
  std::string_view ours;
  std::string_view of_kernel;
};
constexpr std::array<OperationName, 10> kNames{{{"all_reduce", "AllReduce"},
                                                {"reduce_scatter", "ReduceScatter"},
                                                {"all_gather", "AllGather"},
                                                {"all_to_all", "AlltoAll"},
                                                {"broadcast", "Broadcast"},
                                                {"reduce", "Reduce"},
                                                {"gather", "Gather"},
                                                {"scatter", "Scatter"},
                                                {"send", ""},
                                                {"recv", ""}}};
constexpr std::string_view kOfAnyKind = "nccl";
// What runs every collective without a kernel of its own, before NCCL 2.19.
constexpr std::string_view kCatchAll = "ncclKernel_SendRecv_";

std::string operation_of_range(std::string_view name) {
  for (const OperationName& each : kNames) {
    if (name.find(each.ours) != std::string_view::npos) return std::string(each.ours);
  }
  return std::string(kOfAnyKind);
}

std::string operation_of_kernel(std::string_view name) {
  if (name.starts_with(kCatchAll)) return std::string(kOfAnyKind);
  if (name.find("SendRecv") != std::string_view::npos) return "send_recv";
  for (const OperationName& each : kNames) {
    if (!each.of_kernel.empty() && name.find(each.of_kernel) != std::string_view::npos) {
      return std::string(each.ours);
    }
  }
  return std::string(kOfAnyKind);
}

// Several kernels of one collective count as one, from the first to the last.
void add(Event& event, const CollectiveOnGpu& more) {
  if (!event.on_gpu) {
    event.on_gpu = more;
    return;
  }
  event.on_gpu->ran.start_ns = std::min(event.on_gpu->ran.start_ns, more.ran.start_ns);
  event.on_gpu->ran.end_ns = std::max(event.on_gpu->ran.end_ns, more.ran.end_ns);
  event.on_gpu->exposed_ns += more.exposed_ns;
  event.on_gpu->waited_ns += more.waited_ns;
}

}  // namespace

void TracedCollectives::take_kernels(const std::vector<NcclKernel>& kernels) {
  for (const NcclKernel& kernel : kernels) take_kernel(kernel);
}

void TracedCollectives::take_kernel(const NcclKernel& kernel) {
  const std::int64_t at_ns = kernel.launch->at_ns;
  if (kernel.launch->is_of_graph) return add_by_itself(kernel, operation_of_kernel(kernel.name));
  OfThread& thread = threads_[kernel.launch->thread];
  const auto behind = std::ranges::upper_bound(
      thread.collectives, at_ns, {}, [&](std::size_t i) { return collectives_[i].event.start_ns; });
  const auto begun = static_cast<std::size_t>(behind - thread.collectives.begin());
  if (begun > 0 && at_ns <= collectives_[thread.collectives[begun - 1]].range->end_ns) {
    add(collectives_[thread.collectives[begun - 1]].event, kernel.on_gpu);
    thread.taken = begun;
    return;
  }
  const auto range = std::ranges::upper_bound(
      thread.of_nccl, at_ns, {}, [](const TracedRange* each) { return each->start_ns; });
  if (range != thread.of_nccl.begin() && at_ns <= (*std::prev(range))->end_ns) {
    return add_by_itself(kernel, operation_of_range((*std::prev(range))->name));
  }
  if (thread.taken >= begun) return add_by_itself(kernel, operation_of_kernel(kernel.name));
  // Coalesced: the kernel of all that were begun since the last one. The time is the first one's.
  CollectiveOnGpu part = kernel.on_gpu;
  for (; thread.taken < begun; ++thread.taken) {
    add(collectives_[thread.collectives[thread.taken]].event, part);
    part.exposed_ns = 0;
    part.waited_ns = 0;
  }
}

void TracedCollectives::add_by_itself(const NcclKernel& kernel, std::string name) {
  Event event;
  event.kind = EventKind::Collective;
  event.name = std::move(name);
  event.start_ns = kernel.launch->at_ns;
  event.end_ns = event.start_ns;
  event.thread = kernel.launch->thread;
  event.on_gpu = kernel.on_gpu;
  name_only_group(event);
  beside_c10d_.push_back(std::move(event));
}

}  // namespace gradsync::watch
