// A small run made by hand: two parts, two topologies each, the guide's four strategies, four
// launches. Its numbers follow a simple rule (in the .cpp), so that tests can work out what to
// expect.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/records.h"

namespace gradsync::test {

struct SampleRun {
  nlohmann::json context;
  nlohmann::json plan;
  std::vector<results::TrialRecord> trials;
};

// Returns the whole run.
SampleRun sample_run();

// Returns a run of FSDP on two nodes, with a row out of its budget. Two parts, "sweep" without a
// budget and "budget" with one; four launches; accumulation 1, 2 and 4; no_sync and
// sync_each_batch. Under no_sync a step takes 0.1 s per micro-batch and one reduction of 0.05 s,
// and holds 48 MiB of gradients when it accumulates; sync_each_batch reduces in each, and holds 16
// MiB.
SampleRun sample_memory_run();

// Returns one rank of eight of mixtral_8x7b, in the three rows that the guide published, without
// times: fits with 58 GiB, out of a budget of 79 GiB, fits with 58.5 GiB.
SampleRun sample_mixtral_run();

// Returns a run of sweeps on two nodes and more, in two launches, by parts: "accumulation" (1, 2, 4
// and 8, without and with compression), "buckets" (four caps), "links" (1, 2 and 4 Gbit/s), "nodes"
// (2, 3 and 4). A step takes 0.01 s, 0.1 s per micro-batch, and for each synchronization 0.2 s on
// two nodes at 1 Gbit/s: less in proportion on a faster link, half of it in fp16, twice as much in
// buckets of 1 MiB, half of it more for each further node.
SampleRun sample_sweep_run();

nlohmann::json sample_context();

// Returns one trial of two ranks that ended well, its steps as given; the second rank is 1 ms
// faster.
results::TrialRecord sample_trial(const std::string& part, const nlohmann::json& cell, int launch,
                                  std::vector<double> step_s);

// Makes all that the trial took `factor` times as long: steps and blocks, not its timeline.
void stretch(results::TrialRecord& trial, double factor);

// Returns a cell of accumulation_steps 4.
nlohmann::json sample_cell(const std::string& topology, const std::string& strategy,
                           const std::string& model = "bert_mini", int scale = 1);

}  // namespace gradsync::test
