// The question of `gradsync search`: which axis, between which ends, in which plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/plan/edge.h"
#include "harness/session/run_options.h"

namespace gradsync::session {

struct SearchOptions {
  RunOptions run;
  std::string largest;   // an axis, or empty
  std::string smallest;  // likewise
  bool fastest = false;  // of what fits; one of the three
  std::string from;      // as a plan would have it, "1" or "64MiB"; empty: 1
  std::string to;
  int checks = 2;  // see plan::EdgeQuestion
};

struct SearchQuestion {
  plan::Wanted wanted = plan::Wanted::Largest;
  std::string axis;
  std::int64_t from = 1;
  // Nothing (of a budget alone): twice what a run without a budget holds.
  std::optional<std::int64_t> to;
  int checks = 2;
};

// Throws ConfigError for an axis that cannot be searched, or ends that are no values of it.
SearchQuestion read_question(const SearchOptions& options);

// Returns the plan whose cells are to be searched: every axis but the one in question as the plan
// has it, that one at `from`. A trial is one launch of two steps after one of warm-up, unless the
// options say otherwise. Errors: as checked_plan; ConfigError where the options set the axis in
// question, ask for more than one launch or round, or leave open what there is to fit into.
plan::Plan plan_of(const SearchQuestion& question, RunOptions options);

// Returns the plan whose cells race for the fastest that fits. Errors: as checked_plan; ConfigError
// where the options ask for an axis as well, or leave open what there is to fit into.
plan::Plan plan_of_race(const SearchOptions& options);

// Return the value of `axis` in `cell`, and `cell` with another value. `axis` is one that can be
// searched.
std::int64_t value_of(const plan::Cell& cell, const std::string& axis);
plan::Cell with_value(plan::Cell cell, const std::string& axis, std::int64_t value);

}  // namespace gradsync::session
