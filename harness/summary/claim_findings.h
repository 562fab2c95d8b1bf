// The evidence of one setting of a run for a claim of the guide (guide_claims.h says how each is
// decided).
#pragma once

#include <optional>
#include <string>

#include "harness/results/result.h"
#include "harness/summary/guide_claims.h"

namespace gradsync::summary {

struct Finding {
  GuideVerdict verdict = GuideVerdict::Undecided;
  std::string sentence;  // effect, interval, and why it decides nothing where it does not
  std::optional<results::Ratio> effect = std::nullopt;
};

// Judges the claim that synchronizing in every micro-batch costs time, by the row that does.
Finding costs(const results::CellResult& cell);

// Judges the claim that no_sync around backward alone saves nothing; `baseline` is the row without
// any no_sync.
Finding saves_nothing(const results::CellResult& improper, const results::CellResult& baseline);

// Judges the claim that accumulate does as well as no_sync.
Finding does_as_well(const results::CellResult& accumulate);

// Judges the claim that synchronizing in every micro-batch costs more between nodes, by the rows
// that do.
Finding costs_more(const results::CellResult& between, const results::CellResult& within);

// Judges the claim that no_sync runs out of memory where sync_each_batch fits: `none` and `each`.
Finding runs_out(const results::CellResult& none, const results::CellResult& each);

}  // namespace gradsync::summary
