// How fast are the collectives themselves? algbw and busbw by size, as nccl-tests define them.
//
//   size   all_reduce, broadcast: the tensor on each rank. all_gather: the gathered tensor;
//          reduce_scatter: the tensor before scattering (both world_size times a rank's share)
//   algbw  size / time, GB/s (1e9); printed as algbw_GB=.../s
//   busbw  algbw x 2(n-1)/n for all_reduce, x (n-1)/n for all_gather and reduce_scatter, x 1 for
//          broadcast: what an ideal algorithm sends over each rank's link, so that it compares with
//          the link's rate whatever n is
// Source: nccl-tests, doc/PERFORMANCE.md.
#include <ATen/ATen.h>

#include <algorithm>

#include "benchmarks/micro/ranks.h"
#include "harness/comm/process_groups.h"

namespace gradsync::micro {
namespace {

constexpr std::int64_t kKiB = 1 << 10;
constexpr std::int64_t kMiB = 1 << 20;

at::Tensor floats(std::int64_t bytes) {
  return at::ones({bytes / static_cast<std::int64_t>(sizeof(float))});
}

struct Collective {
  const char* name;
  double (*bus_factor)(double ranks);
  // Makes the tensors for `bytes` and returns one collective, blocking.
  std::function<void()> (*prepare)(const Ranks& ranks, std::int64_t bytes);
};

std::function<void()> prepare_all_reduce(const Ranks& ranks, std::int64_t bytes) {
  return [group = ranks.group, tensors = std::vector{floats(bytes)}]() mutable {
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;  // values stay what they are
    group->allreduce(tensors, options)->wait();
  };
}

std::function<void()> prepare_broadcast(const Ranks& ranks, std::int64_t bytes) {
  return [group = ranks.group, tensors = std::vector{floats(bytes)}]() mutable {
    group->broadcast(tensors)->wait();
  };
}

std::function<void()> prepare_all_gather(const Ranks& ranks, std::int64_t bytes) {
  return [group = ranks.group, whole = floats(bytes),
          share = floats(bytes / ranks.world_size)]() mutable {
    comm::all_gather(*group, whole, share)->wait();
  };
}

std::function<void()> prepare_reduce_scatter(const Ranks& ranks, std::int64_t bytes) {
  return [group = ranks.group, whole = floats(bytes),
          share = floats(bytes / ranks.world_size)]() mutable {
    comm::reduce_scatter(*group, share, whole)->wait();
  };
}

double twice_all_but_one(double n) {
  return 2 * (n - 1) / n;
}
double all_but_one(double n) {
  return (n - 1) / n;
}
double once(double) {
  return 1;
}

constexpr Collective kCollectives[] = {
    {"all_reduce", twice_all_but_one, prepare_all_reduce},
    {"reduce_scatter", all_but_one, prepare_reduce_scatter},
    {"all_gather", all_but_one, prepare_all_gather},
    {"broadcast", once, prepare_broadcast},
};

void measure(benchmark::State& state, const Ranks& ranks, const Collective& collective) {
  const std::int64_t bytes = state.range(0) / ranks.world_size * ranks.world_size;
  const auto run = collective.prepare(ranks, bytes);
  run();  // connections and buffers
  time_slowest(state, ranks, run);
  const auto gigabytes = static_cast<double>(bytes) * 1e-9;
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["algbw_GB"] = benchmark::Counter(gigabytes, rate);
  state.counters["busbw_GB"] =
      benchmark::Counter(gigabytes * collective.bus_factor(ranks.world_size), rate);
}

void register_all(const Ranks& ranks) {
  constexpr std::int64_t kBytesPerSize = 256 * kMiB;
  for (const Collective& collective : kCollectives) {
    for (const std::int64_t bytes : {64 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
      benchmark::RegisterBenchmark(
          collective.name,
          [ranks, &collective](benchmark::State& state) { measure(state, ranks, collective); })
          ->Arg(bytes)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond)
          ->Iterations(std::clamp<std::int64_t>(kBytesPerSize / bytes, 4, 100));
    }
  }
}

}  // namespace
}  // namespace gradsync::micro

int main(int argc, char** argv) {
  return gradsync::micro::run_ranked(argc, argv, gradsync::micro::register_all);
}
