// A small run made by hand: two parts, two topologies each, the guide's four strategies, three
// launches. Its numbers follow a simple rule (in the .cpp), so that tests can work out what to
// expect.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/records.h"

namespace gradsync::testing {

struct SampleRun {
  nlohmann::json context;
  nlohmann::json plan;
  std::vector<results::TrialRecord> trials;
};

// Returns the whole run.
SampleRun sample_run();

nlohmann::json sample_context();

// Returns one trial of two ranks that ended well, its steps as given; the second rank is 1 ms
// faster.
results::TrialRecord sample_trial(const std::string& part, const nlohmann::json& cell, int launch,
                                  std::vector<double> step_s);

// Returns a cell of accumulation_steps 4.
nlohmann::json sample_cell(const std::string& topology, const std::string& strategy,
                           const std::string& model = "bert_mini", int scale = 1);

}  // namespace gradsync::testing
