// What one setting of a run says of a claim of the guide (guide_claims.h says how each is decided).
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

// Of the row that synchronizes in every micro-batch: that this costs.
Finding costs(const results::CellResult& cell);

// That no_sync around backward alone saves nothing; `baseline` is the row without any.
Finding saves_nothing(const results::CellResult& improper, const results::CellResult& baseline);

// That accumulate does as well as no_sync.
Finding does_as_well(const results::CellResult& accumulate);

// Of the rows that synchronize in every micro-batch: that this costs more between nodes.
Finding costs_more(const results::CellResult& between, const results::CellResult& within);

// That no_sync runs out of memory where sync_each_batch fits: `none` and `each`.
Finding runs_out(const results::CellResult& none, const results::CellResult& each);

}  // namespace gradsync::summary
