// What the parts of a step cost in one process: the recorder and the ledger per event, the memory
// meter per allocation, the recording backend per collective, the Reducer's hooks, a no_sync
// toggle, optimizers, models.
//
// World size 1: collectives return at once, so what is timed is the engine and not a link.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/CPUAllocator.h>
#include <torch/optim/adamw.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "harness/base/clock.h"
#include "harness/comm/process_groups.h"
#include "harness/measure/caching_allocator_model.h"
#include "harness/measure/memory.h"
#include "harness/measure/step_recorder.h"
#include "harness/sync/adamw.h"
#include "harness/sync/ddp.h"
#include "models/data.h"
#include "models/model.h"
#include "models/pace.h"

namespace gradsync::micro {
namespace {

constexpr int kEventsKept = 4096;  // forgotten then, as between blocks of a run

void recorder_phase(benchmark::State& state) {
  measure::StepRecorder recorder(steady_clock());
  recorder.begin_block();
  int phases = 0;
  for (auto _ : state) {
    recorder.enter(measure::Phase::Forward);
    recorder.leave();
    if (++phases % kEventsKept == 0) recorder.begin_block();
  }
}
BENCHMARK(recorder_phase);

void ledger_event(benchmark::State& state) {
  comm::Ledger ledger(steady_clock());
  int events = 0;
  for (auto _ : state) {
    ledger.complete(ledger.start("all_reduce", 1024));
    if (++events % kEventsKept == 0) ledger.clear();
  }
}
BENCHMARK(ledger_event);

// The meter's allocator. Torch's own stays that of every other benchmark here.
c10::Allocator& metered_allocator() {
  static c10::Allocator& allocator = []() -> c10::Allocator& {
    measure::meter().install();
    c10::Allocator& metered = *c10::GetCPUAllocator();
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 255);
    return metered;
  }();
  return allocator;
}

// 1 KiB asked and given back: by torch's own allocator, and counted.
void allocation(benchmark::State& state, bool counted) {
  c10::Allocator& allocator = counted ? metered_allocator() : *c10::GetDefaultCPUAllocator();
  for (auto _ : state) benchmark::DoNotOptimize(allocator.allocate(1024).get());
}
BENCHMARK_CAPTURE(allocation, plain, false);
BENCHMARK_CAPTURE(allocation, counted, true);

// What the estimate of reserved memory adds, beside `live` other blocks.
void caching_allocator_model(benchmark::State& state) {
  measure::CachingAllocatorModel model;
  std::uint64_t id = 0;
  while (id < static_cast<std::uint64_t>(state.range(0))) {
    if (!model.allocate(++id, 1024)) state.SkipWithError("out of memory without a limit");
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(model.allocate(0, 1024));
    model.free(0);
  }
}
BENCHMARK(caching_allocator_model)->Arg(1000)->ArgName("live");

// One for the process: c10d keeps what it knows of groups in globals.
struct Alone {
  comm::Ledger ledger{steady_clock()};
  comm::GroupOptions options{.address = "127.0.0.1"};
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  c10::intrusive_ptr<c10d::ProcessGroup> group = comm::make_process_group(store, options, ledger);
};
Alone& alone() {
  static Alone instance;
  return instance;
}

// As between the blocks of a run.
void forget_events() {
  alone().ledger.settle(10);
  alone().ledger.clear();
}

// Through the recording backend, or straight to gloo: the difference is what recording costs.
void all_reduce(benchmark::State& state, bool recorded) {
  static const auto plain = comm::make_gloo_backend(alone().store, alone().options);
  const auto recording = alone().group->getBackend(c10::DeviceType::CPU);
  c10d::Backend& backend = recorded ? *recording : *plain;
  std::vector<at::Tensor> tensors{at::ones({1})};
  int events = 0;
  for (auto _ : state) {
    backend.allreduce(tensors)->wait();
    if (++events % kEventsKept != 0) continue;
    state.PauseTiming();
    forget_events();
    state.ResumeTiming();
  }
  forget_events();
}
BENCHMARK_CAPTURE(all_reduce, gloo, false);
BENCHMARK_CAPTURE(all_reduce, gloo_recorded, true);

struct Trained {
  explicit Trained(const std::string& name) {
    models::ModelOptions options;
    options.pace = models::host_pace(steady_clock());
    model = models::find_model(name).make(options);
    models::DataOptions data;
    data.micro_batch_size = 4;
    if (model->vocabulary_size() > 0) data.vocabulary_size = model->vocabulary_size();
    batch = models::DataLoader(data, 1).next();
  }
  std::shared_ptr<models::Model> model;
  models::Batch batch;
};

void drop_gradients(models::Model& model) {
  for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
}

void model_forward(benchmark::State& state, const char* name) {
  const Trained trained(name);
  for (auto _ : state) benchmark::DoNotOptimize(trained.model->loss(trained.batch));
}
void model_forward_backward(benchmark::State& state, const char* name) {
  const Trained trained(name);
  for (auto _ : state) {
    trained.model->loss(trained.batch).backward();
    drop_gradients(*trained.model);
  }
}
BENCHMARK_CAPTURE(model_forward, mlp, "mlp")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(model_forward_backward, mlp, "mlp")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(model_forward, bert_mini_4x64, "bert_mini")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(model_forward_backward, bert_mini_4x64, "bert_mini")
    ->Unit(benchmark::kMillisecond);

// The same forward and backward under DDP: synchronized, and inside no_sync. Against
// model_forward_backward the first shows the Reducer's hooks, buckets and copies.
void ddp_forward_backward(benchmark::State& state, const char* name, bool synchronize) {
  const Trained trained(name);
  sync::DistributedDataParallel ddp(trained.model, alone().group, {});
  for (int warmup = 0; warmup < 3; ++warmup) {
    ddp.forward(trained.batch).backward();
    drop_gradients(*trained.model);
  }
  for (auto _ : state) {
    std::optional<sync::NoSyncGuard> guard;
    if (!synchronize) guard.emplace(ddp);
    ddp.forward(trained.batch).backward();
    drop_gradients(*trained.model);
  }
  forget_events();
}
BENCHMARK_CAPTURE(ddp_forward_backward, mlp, "mlp", true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ddp_forward_backward, mlp_no_sync, "mlp", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ddp_forward_backward, bert_mini_4x64, "bert_mini", true)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ddp_forward_backward, bert_mini_4x64_no_sync, "bert_mini", false)
    ->Unit(benchmark::kMillisecond);

void no_sync_toggle(benchmark::State& state) {
  const Trained trained("mlp");
  sync::DistributedDataParallel ddp(trained.model, alone().group, {});
  for (auto _ : state) {
    const auto guard = ddp.no_sync();
    benchmark::DoNotOptimize(&guard);
  }
  forget_events();
}
BENCHMARK(no_sync_toggle);

void adamw_fused(benchmark::State& state, const char* name) {
  const Trained trained(name);
  trained.model->loss(trained.batch).backward();
  sync::FusedAdamW optimizer(trained.model->parameters(), {});
  for (auto _ : state) optimizer.step();
}
void adamw_plain(benchmark::State& state, const char* name) {
  const Trained trained(name);
  trained.model->loss(trained.batch).backward();
  torch::optim::AdamW optimizer(trained.model->parameters(), torch::optim::AdamWOptions(2e-5));
  for (auto _ : state) optimizer.step();
}
BENCHMARK_CAPTURE(adamw_fused, bert_mini, "bert_mini")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(adamw_plain, bert_mini, "bert_mini")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gradsync::micro

int main(int argc, char** argv) {
  at::set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
