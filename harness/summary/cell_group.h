// The trials of one cell, gathered from all launches and rounds, in the order of the plan.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/parameters.h"
#include "harness/results/records.h"

namespace gradsync::summary {

// A cell of which no trial was started, and why.
struct SkippedCell {
  std::string part;
  results::Parameters cell;
  std::string reason;
};

struct CellGroup {
  std::string part;
  results::Parameters cell;
  std::vector<const results::TrialRecord*> trials;  // in the order they ran
  std::string skipped_because;                      // of a SkippedCell; empty otherwise
  // The plan's window rule: windows hold different numbers of micro-batches, and rank 0's clock
  // counts.
  bool as_published = false;

  // Trials that ended well, the only ones whose numbers count.
  std::vector<const results::TrialRecord*> ok_trials() const;
};

// Returns one group per (part, cell): parts and topologies as they first appear; inside those by
// the other parameters, in the order of the plan's lists where the plan has them; strategy last,
// from the one that synchronizes most to the one that does least. `trials` must outlive the groups.
std::vector<CellGroup> group_by_cell(const nlohmann::json& plan,
                                     const std::vector<results::TrialRecord>& trials,
                                     const std::vector<SkippedCell>& skipped);

// Where a strategy stands among those of a table, from the one that synchronizes most to the one
// that does least; strategies that this version does not know are behind all it knows.
std::size_t place_of_strategy(const std::string& name);

// Worst status of the trials, and the first reason given for that status.
struct GroupOutcome {
  results::Status status = results::Status::Ok;
  std::string reason;
  std::optional<results::OomPlace> oom_place = std::nullopt;
};
GroupOutcome outcome_of(const CellGroup& group);

}  // namespace gradsync::summary
