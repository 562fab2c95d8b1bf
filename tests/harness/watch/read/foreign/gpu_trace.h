// A trace of torch.profiler's, made event by event, on a host and on its GPU.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "harness/watch/judge/watched.h"
#include "harness/watch/read/foreign/kineto.h"

namespace gradsync::watch::test {

using nlohmann::json;

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
inline GpuTrace too_often(GpuTrace trace = GpuTrace(), Pace pace = {}) {
  for (int i = 0; i < 5; ++i) {
    trace.micro_batch(true, pace).micro_batch(false, pace).step();
  }
  return trace;
}

}  // namespace gradsync::watch::test
