// Google Benchmark over several ranks: one program that starts itself once per rank.
//
// The parent makes the network of a topology (--topology=NAME, 1x2 without), starts the ranks and
// prints what rank 0 reports. In a rank every benchmark runs a fixed number of iterations, so that
// all ranks make the same collectives, and the time of an iteration is that of the slowest rank.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "harness/comm/ledger.h"

namespace gradsync::micro {

// What a benchmark has to work with in its rank.
struct Ranks {
  int rank;
  int world_size;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  comm::Ledger& ledger;
};

// Runs `body` in every iteration of `state` (UseManualTime, fixed Iterations) and gives it the time
// of the slowest rank. Collective. Neither the wait for the others before an iteration nor the
// agreement on its time is inside the time.
void time_slowest(benchmark::State& state, const Ranks& ranks, const std::function<void()>& body);

// The whole of main. `register_benchmarks` is called in every rank, and must register the same
// benchmarks in all of them. Returns the exit status: 0, 1 where a rank failed, 2 for wrong usage.
int run_ranked(int argc, char** argv, const std::function<void(const Ranks&)>& register_benchmarks);

}  // namespace gradsync::micro
