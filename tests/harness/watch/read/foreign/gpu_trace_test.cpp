// What traces tell of GPUs: traces that are made event by event, on a host and on its GPU.
//
// Covers: device_events.cpp, nccl_kernels.cpp, traced_kernels.cpp, on_gpu.cpp, waits.cpp.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/watch/judge/watched.h"
#include "harness/watch/read/foreign/kineto.h"
#include "harness/watch/tell/page_parts.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::watch {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int kTrainingThread = 7;

// How a library calls what it does.
struct Names {
  std::string launch = "cudaLaunchKernel";
  std::string launch_of_nccl = "cudaLaunchKernelExC";
  std::string kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
};

// A micro-batch on the GPU.
struct Pace {
  double computes = 100;
  double lasts = 130;  // with its all-reduces
  int buckets = 1;     // one after the other
};

// A trace of a rank of two whose model has one gradient of a million floats. Times are
// microseconds. The all-reduce of a micro-batch begins 40 before what it computes ends. The
// optimizer takes 20.
class GpuTrace {
 public:
  explicit GpuTrace(int rank = 0, Names names = {}) : rank_(rank), names_(std::move(names)) {}

  GpuTrace& micro_batch(bool is_new, Pace pace = {}) {
    add("user_annotation", "DistributedDataParallel.forward", host_, 10);
    const std::string node = "torch::autograd::AccumulateGrad";
    add("cpu_op", "autograd::engine::evaluate_function: " + node, host_ + 20, 20);
    add("cpu_op", node, host_ + 21, 5, shapes());
    add("cpu_op", is_new ? "aten::detach" : "aten::add_", host_ + 22, 2, shapes());
    launch(names_.launch, host_ + 23);
    kernel("sm90_xmma_gemm_f32f32", gpu_, pace.computes);
    add("cpu_op", "torch::distributed::reducer::mul_out", host_ + 27, 1, shapes());
    const double took = (pace.lasts - pace.computes + 40) / pace.buckets;
    for (int i = 0; i < pace.buckets; ++i) {
      all_reduce(host_ + 30 + 3 * i, gpu_ + pace.computes - 40 + i * took, took);
    }
    gpu_ += pace.lasts;
    host_ += 60;
    return *this;
  }

  GpuTrace& step() {
    add("user_annotation", "Optimizer.step#SGD.step", host_, 5);
    launch(names_.launch, host_ + 1);
    kernel("multi_tensor_apply_kernel", gpu_, 20);
    gpu_ += 20;
    host_ += 10;
    return *this;
  }

  // c10d's operator, with the launch of its kernel in it.
  void all_reduce(double host, double gpu, double took) {
    add("cpu_op", "c10d::allreduce_", host, 2, shapes());
    launch(names_.launch_of_nccl, host + 1);
    kernel(names_.kernel, gpu, took);
  }

  void launch(const std::string& name, double at) {
    add("cuda_runtime", name, at, 1, {{"correlation", ++correlation_}});
  }

  // What the last launch launched.
  void kernel(const std::string& name, double begin, double took,
              const std::string& category = "kernel", int device = 0) {
    add(category, name, begin, took,
        {{"correlation", correlation_}, {"device", device}, {"stream", 7}}, device);
  }

  void add(const std::string& category, const std::string& name, double begin, double took,
           json details = json::object(), int thread = kTrainingThread) {
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"pid", 5},
                       {"tid", thread},
                       {"ts", begin + clock_},
                       {"dur", took},
                       {"args", std::move(details)}});
  }

  GpuTrace& on_clock(double ahead) {
    clock_ = ahead;
    return *this;
  }

  GpuTrace& ran_ahead(double by) {
    gpu_ += by;
    return *this;
  }

  double host() const { return host_; }
  double gpu() const { return gpu_; }
  json& events() { return events_; }

  std::string text() const {
    const json group{{"pg_name", "0"}, {"pg_desc", "default_pg"}, {"ranks", {0, 1}}};
    return json{{"schemaVersion", 1},
                {"distributedInfo", {{"rank", rank_}, {"world_size", 2}, {"pg_config", {group}}}},
                {"traceEvents", events_}}
        .dump();
  }

  RankEvents rank() const { return events_of(parse_trace(text(), "trace.json")); }
  Watched watched() const { return summarize({rank()}); }

 private:
  static json shapes() { return {{"Input Dims", {{1'000'000}}}, {"Input type", {"float"}}}; }

  int rank_;
  Names names_;
  json events_ = json::array();
  double host_ = 1000;
  double gpu_ = 1500;
  double clock_ = 0;
  int correlation_ = 0;
};

// Steps of two micro-batches that both synchronize.
GpuTrace too_often(GpuTrace trace = GpuTrace(), Pace pace = {}) {
  for (int i = 0; i < 5; ++i) {
    trace.micro_batch(true, pace).micro_batch(false, pace).step();
  }
  return trace;
}

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
