#include "harness/watch/read/foreign/graph_launches.h"

#include <algorithm>
#include <array>

namespace gradsync::watch {
namespace {

// The launches of CUDA's runtime, per-thread streams among them, of its driver, and of ROCm.
constexpr std::array<std::string_view, 5> kLaunches{"cudaGraphLaunch", "cudaGraphLaunch_ptsz",
                                                    "cuGraphLaunch", "cuGraphLaunch_ptsz",
                                                    "hipGraphLaunch"};

constexpr std::string_view kKernel = "kernel";

bool is_on_gpu(std::string_view category) {
  return category == kKernel || category == "gpu_memcpy" || category == "gpu_memset";
}

}  // namespace

void GraphLaunches::see(std::string_view category, std::string_view name,
                        std::optional<std::int64_t> correlation) {
  if (std::ranges::find(kLaunches, name) != kLaunches.end()) {
    launches_.push_back(correlation);
  } else if (is_on_gpu(category) && correlation) {
    ran_on_gpu_.insert(*correlation);
    // "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", before NCCL 2.19 "ncclKernel_...".
    if (category == kKernel && name.starts_with("nccl")) ran_nccl_.insert(*correlation);
  }
}

bool GraphLaunches::may_communicate() const {
  return std::ranges::any_of(launches_, [&](const std::optional<std::int64_t>& launch) {
    return !launch || !ran_on_gpu_.contains(*launch) || ran_nccl_.contains(*launch);
  });
}

}  // namespace gradsync::watch
