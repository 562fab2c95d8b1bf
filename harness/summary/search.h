// What a search for the edge of memory found, cell by cell: search.json as types.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/edge.h"
#include "harness/results/parameters.h"
#include "harness/results/records.h"

namespace gradsync::summary {

inline constexpr const char* kSearchSchema = "gradsync.search/1";

// A trial of the search.
struct SearchProbe {
  int order = 0;                      // of the trial in trials.jsonl
  std::optional<std::int64_t> value;  // of the axis; unset: a run without a budget
  results::Status status = results::Status::Ok;
  std::string reason;
  std::optional<std::int64_t> peak_allocated_bytes;
};

struct SearchedCell {
  std::string part;
  results::Parameters cell;  // without the axis
  std::int64_t from = 1;
  std::optional<std::int64_t> to;  // unset: a run without a budget did not end well
  plan::Edge::Outcome outcome = plan::Edge::Outcome::Stopped;
  std::optional<std::int64_t> edge;                  // the last value that fits, where it was found
  std::optional<std::int64_t> peak_allocated_bytes;  // of the trial there
  std::string reason;                                // the outcome as a sentence
  std::vector<SearchProbe> probes;                   // in the order they ran
};

struct Search {
  std::string plan;  // its name
  plan::Wanted wanted = plan::Wanted::Largest;
  std::string axis;
  int checks = 0;
  std::vector<SearchedCell> cells;  // those whose search has ended
  std::optional<int> exit_status;
};

void to_json(nlohmann::json& out, const Search& search);

}  // namespace gradsync::summary
