// What traces tell of GPUs: traces that are made event by event, on a host and on its GPU.
//
// Covers: device_events.cpp, gpu_waits.cpp, nccl_kernels.cpp, traced_kernels.cpp, on_gpu.cpp,
// waits.cpp.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/watch/judge/watched.h"
#include "harness/watch/read/foreign/kineto.h"
#include "harness/watch/tell/page_parts.h"
#include "tests/harness/watch/read/foreign/gpu_trace.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::watch {
namespace {

using nlohmann::json;
using test::GpuTrace;
using test::Names;
using test::Pace;
using test::too_often;
using ::testing::HasSubstr;

std::vector<const Event*> collectives_of(const RankEvents& rank) {
  std::vector<const Event*> found;
  for (const Event& event : rank.events) {
    if (event.kind == EventKind::Collective) found.push_back(&event);
  }
  return found;
}

TEST(GpuTrace, ItsKernelsTellWhatAStepWaitsForTheExcess) {
  const Watched watched = too_often().watched();
  EXPECT_EQ(watched.verdicts.front().kind, VerdictKind::MoreThanOnce);
  const TypicalStep& typical = *watched.typical;
  EXPECT_NEAR(*typical.step_s, 280e-6, 1e-9);
  EXPECT_NEAR(*typical.excess_s, 30e-6, 1e-9);
  EXPECT_NEAR(*watched.series.exposed_s, 60e-6, 1e-9);
  EXPECT_NEAR(*typical.parts->fixed_s, 20e-6, 1e-9);
  EXPECT_NEAR(*typical.parts->synchronization_s, 30e-6, 1e-9);
  EXPECT_NEAR(*typical.parts->micro_batch_s, 100e-6, 1e-9);
}

TEST(GpuTrace, ItsKernelsTellWhatOverlapsAndWhatIsExposedMost) {
  const Watched watched = too_often().watched();
  ASSERT_TRUE(watched.typical->gpu.has_value());
  const StepOnGpu& gpu = *watched.typical->gpu;
  EXPECT_NEAR(gpu.times.communication_s, 140e-6, 1e-9);
  EXPECT_NEAR(gpu.times.overlapped_s, 80e-6, 1e-9);
  EXPECT_NEAR(gpu.times.exposed_s, 60e-6, 1e-9);
  EXPECT_NEAR(gpu.times.computation_s, 220e-6, 1e-9);
  EXPECT_NEAR(gpu.times.idle_s, 0, 1e-9);
  ASSERT_TRUE(gpu.most_exposed.has_value());
  EXPECT_EQ(gpu.most_exposed->name, "all_reduce");
  EXPECT_EQ(gpu.most_exposed->number, 1);
  EXPECT_EQ(gpu.most_exposed->of, 2);
  EXPECT_EQ(gpu.most_exposed->bytes, 4'000'000);
  EXPECT_THAT(gpu_sentence(watched), HasSubstr("all_reduce 1 of 2"));
}

TEST(GpuTrace, ThoseOfRocmAreKnown) {
  const Names rocm{"hipLaunchKernel", "hipExtLaunchKernel",
                   "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"};
  const Watched watched = too_often(GpuTrace(0, rocm)).watched();
  EXPECT_NEAR(*watched.typical->excess_s, 30e-6, 1e-9);
  EXPECT_NEAR(watched.typical->gpu->times.exposed_s, 60e-6, 1e-9);
}

// A host that runs a whole step ahead of its GPU waits for nothing of this step.
TEST(GpuTrace, AStepLastsOnItsGpuHoweverFarTheHostRunsAhead) {
  const Watched watched = too_often(GpuTrace().ran_ahead(5000)).watched();
  EXPECT_NEAR(*watched.typical->step_s, 280e-6, 1e-9);
  EXPECT_NEAR(*watched.typical->excess_s, 30e-6, 1e-9);
}

TEST(GpuTrace, AKernelIsOfTheOperatorThatLaunchedItWhateverItsName) {
  const Names catch_all{"cudaLaunchKernel", "cudaLaunchKernel",
                        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"};
  const RankEvents rank = too_often(GpuTrace(0, catch_all)).rank();
  for (const Event* each : collectives_of(rank)) {
    EXPECT_EQ(each->name, "all_reduce");
    ASSERT_TRUE(each->on_gpu.has_value());
    EXPECT_EQ(each->on_gpu->exposed_ns, 30'000);
  }
}

TEST(GpuTrace, OfCollectivesAtOnceTheFirstHasTheTime) {
  GpuTrace trace;
  trace.all_reduce(2000, 3000, 100);
  trace.all_reduce(2010, 3050, 100);
  const RankEvents rank = trace.rank();
  const auto all = collectives_of(rank);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]->on_gpu->exposed_ns, 100'000);
  EXPECT_EQ(all[1]->on_gpu->exposed_ns, 50'000);
}

TEST(GpuTrace, ACopyBesideACollectiveHidesNothing) {
  GpuTrace trace;
  trace.all_reduce(2000, 3000, 100);
  trace.launch("cudaMemcpyAsync", 2020);
  trace.kernel("Memcpy DtoD (Device -> Device)", 3000, 100, "gpu_memcpy");
  EXPECT_EQ(collectives_of(trace.rank()).front()->on_gpu->exposed_ns, 100'000);
}

// An all-reduce that ends 50 behind the kernel beside it, 3100 to 3150, and a kernel that begins at
// 3200 and was launched when the host says so. Returns what the step waits, in nanoseconds.
std::int64_t waited_ns(double launched, const std::string& call_before = "", int stream = 7) {
  GpuTrace trace;
  trace.launch("cudaLaunchKernel", 2000);
  trace.kernel("gemm", 3000, 100);
  trace.all_reduce(2010, 3050, 100);
  if (!call_before.empty()) {
    trace.launch(call_before, 2500);
    trace.events().back()["dur"] = 660;
  }
  trace.launch("cudaLaunchKernel", launched);
  trace.kernel("gemm", 3200, 100);
  trace.events().back()["args"]["stream"] = stream;
  const RankEvents rank = trace.rank();
  EXPECT_EQ(collectives_of(rank).front()->on_gpu->exposed_ns, 50'000);
  EXPECT_NEAR(times_of(*rank.gpu).exposed_s, 50e-6, 1e-12);
  const std::int64_t waited_ns = collectives_of(rank).front()->on_gpu->waited_ns;
  EXPECT_NEAR(times_of(*rank.gpu).waited_s, static_cast<double>(waited_ns) * 1e-9, 1e-12);
  return waited_ns;
}

TEST(GpuTrace, AStepWaitsForACollectiveOnlyWhereItsHostDoesNot) {
  EXPECT_EQ(waited_ns(2020), 50'000);
  EXPECT_EQ(waited_ns(3140), 10'000);
  EXPECT_EQ(waited_ns(3160), 0);
  EXPECT_EQ(waited_ns(3160, "cudaStreamSynchronize"), 50'000);
  EXPECT_EQ(waited_ns(3160, "cudaMemcpy"), 50'000);
  EXPECT_EQ(waited_ns(3160, "cudaMemcpyAsync"), 0);
}

TEST(GpuTrace, AKernelOfAnotherStreamWaitsForNothing) {
  EXPECT_EQ(waited_ns(2020, "", 8), 0);
}

TEST(GpuTrace, WhatAGraphRanIsCountedFromItsKernels) {
  GpuTrace trace = too_often();
  trace.launch("cudaGraphLaunch", trace.host());
  trace.kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)", trace.gpu(), 10);
  trace.kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgs)", trace.gpu() + 20,
               10);
  const RankEvents rank = trace.rank();
  const auto all = collectives_of(rank);
  ASSERT_GE(all.size(), 2U);
  EXPECT_EQ(all[all.size() - 2]->name, "all_gather");
  EXPECT_EQ(all.back()->name, "reduce_scatter");
  EXPECT_EQ(all.back()->bytes, -1);
  EXPECT_EQ(all.back()->on_gpu->exposed_ns, 10'000);
  EXPECT_TRUE(rank.graphs_may_communicate);
}

// torchrec's of 2022 reach NCCL without c10d's dispatcher.
TEST(GpuTrace, AKernelWithoutAnOperatorIsCalledAfterTheRangeAroundItsLaunch) {
  GpuTrace trace;
  trace.add("user_annotation", "nccl:all_to_all", 2000, 10);
  trace.launch("cudaLaunchKernel", 2005);
  trace.kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 3000, 50);
  trace.launch("cudaLaunchKernel", 2100);
  trace.kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 3100, 50);
  trace.launch("cudaLaunchKernel", 2200);
  trace.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", 3200, 50);
  const RankEvents rank = trace.rank();
  const auto all = collectives_of(rank);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]->name, "all_to_all");
  EXPECT_EQ(all[1]->name, "all_reduce");
  EXPECT_EQ(all[2]->name, "nccl");
}

TEST(GpuTrace, OneKernelOfCoalescedOperatorsIsOfAllOfThem) {
  GpuTrace trace;
  trace.add("cpu_op", "c10d::allreduce_", 2000, 5);
  trace.add("cpu_op", "c10d::allreduce_", 2010, 5);
  trace.launch("cudaLaunchKernelExC", 2020);
  trace.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", 3000, 100);
  const RankEvents rank = trace.rank();
  const auto all = collectives_of(rank);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]->on_gpu->exposed_ns, 100'000);
  EXPECT_EQ(all[1]->on_gpu->exposed_ns, 0);
  EXPECT_EQ(all[1]->on_gpu->ran.end_ns, 3'100'000);
}

TEST(GpuTrace, ACollectiveWhoseKernelIsNotInTheFileLeavesTheSecondsUnknown) {
  GpuTrace trace = too_often();
  json& events = trace.events();
  for (json& event : events) {
    if (event["name"].get<std::string>().starts_with("nccl")) event["args"].erase("correlation");
  }
  const Watched watched = trace.watched();
  EXPECT_EQ(watched.verdicts.front().kind, VerdictKind::MoreThanOnce);
  EXPECT_FALSE(watched.typical->excess_s);
  EXPECT_FALSE(watched.series.exposed_s);
  EXPECT_NEAR(watched.typical->gpu->times.exposed_s, 60e-6, 1e-9);  // they ran all the same
}

TEST(GpuTrace, OfASynchronizationThatLacksAKernelTheSecondsAreUnknown) {
  GpuTrace trace = too_often(GpuTrace(), {.buckets = 2});
  EXPECT_NEAR(*trace.watched().series.exposed_s, 60e-6, 1e-9);
  int kernels = 0;
  std::erase_if(trace.events().get_ref<json::array_t&>(), [&](const json& event) {
    return event["name"].get<std::string>().starts_with("nccl") && ++kernels % 2 == 0;
  });
  EXPECT_FALSE(trace.watched().series.exposed_s);
}

TEST(GpuTrace, OfSeveralGpusOrUnknownTimesNoSecondsAreTold) {
  GpuTrace of_two = too_often();
  of_two.launch("cudaLaunchKernel", of_two.host());
  of_two.kernel("ncclDevKernel_Generic(ncclDevKernelArgs)", of_two.gpu(), 10, "kernel", 1);
  GpuTrace of_unknown = too_often();
  of_unknown.launch("cudaLaunchKernel", of_unknown.host());
  of_unknown.kernel("elementwise_kernel", of_unknown.gpu(), 10);
  of_unknown.events().back()["dur"] = nullptr;
  for (const GpuTrace& trace : {of_two, of_unknown}) {
    const Watched watched = trace.watched();
    EXPECT_EQ(watched.verdicts.front().kind, VerdictKind::MoreThanOnce);
    EXPECT_FALSE(watched.ranks.front().gpu.has_value());
    EXPECT_FALSE(watched.typical->gpu.has_value());
    EXPECT_FALSE(watched.typical->excess_s);
    EXPECT_EQ(gpu_sentence(watched), "");
    EXPECT_THAT(watched.faults, testing::Contains(HasSubstr("GPU")));
  }
}

// The traces of two ranks, as files.
Watched of_both(const GpuTrace& first, const GpuTrace& second) {
  const gradsync::test::TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const GpuTrace* trace : {&first, &second}) {
    paths.push_back(folder.write(std::to_string(paths.size()) + ".json", trace->text()));
  }
  return summarize(read_foreign_job(paths));
}

constexpr Pace kWaiting{100, 2130};  // for a rank that computes for 2000 more
constexpr Pace kLate{2100, 2130};

TEST(GpuTrace, TheRankWhoseKernelBeginsLastIsLateWhateverItsClock) {
  const Watched watched =
      of_both(too_often(GpuTrace(0), kWaiting), too_often(GpuTrace(1).on_clock(3e6), kLate));
  EXPECT_EQ(watched.verdicts.front().kind, VerdictKind::MoreThanOnce);
  ASSERT_TRUE(watched.series.latest_rank) << watched.series.latest_rank.why_not();
  EXPECT_EQ(*watched.series.latest_rank, 1);
  EXPECT_NEAR(*watched.typical->excess_s, 30e-6, 1e-9);
}

TEST(GpuTrace, OfRanksThatComeTogetherNobodyIsLate) {
  const Watched watched = of_both(too_often(GpuTrace(0)), too_often(GpuTrace(1), {102, 130}));
  EXPECT_FALSE(watched.series.latest_rank);
}

TEST(GpuTrace, TracesOfOtherStepsAreNotCompared) {
  GpuTrace first = too_often(GpuTrace(0), kWaiting);
  GpuTrace second = too_often(GpuTrace(1), kLate);
  first.add("user_annotation", "ProfilerStep#4", 990, 5);
  second.add("user_annotation", "ProfilerStep#5", 990, 5);
  EXPECT_FALSE(of_both(first, second).series.latest_rank);
}

}  // namespace
}  // namespace gradsync::watch
