// The settings of a run that the guide's claims can be held against: everything but the strategy,
// with at least two micro-batches in a step, since with one there is nothing to leave out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/summary/part_view.h"

namespace gradsync::summary {

struct ClaimSetting {
  const Setting* cells = nullptr;  // of the part that it is in
  std::string part;                // "" where the plan has no parts
  std::string place;    // where it ran and what tells it from others; paced compute is said
  std::string machine;  // all but strategy and topology, and how many ranks: what two places share
  int nodes = 0;        // 0: not known
  bool is_ddp = false;
  bool is_fsdp = false;
  bool timing_valid = true;

  const results::CellResult* under(const std::string& strategy) const {
    return cells->under(strategy);  // nullptr: it did not run
  }

  // The row that synchronizes in every micro-batch, where no_sync ran too: baseline, or under FSDP
  // sync_each_batch in its place. nullptr: there is none.
  const results::CellResult* that_syncs_each() const;

  // Whether the row can say something about times: false where it ended well and none were taken,
  // as in a part about memory alone.
  bool has_times(const results::CellResult& cell) const;
};

// Returns the settings in the order of the run; they point into its parts.
std::vector<ClaimSetting> claim_settings(const std::vector<PartView>& parts);

// Two settings that differ in where the ranks are alone: between nodes, within one.
using AcrossNodes = std::pair<const ClaimSetting*, const ClaimSetting*>;
std::vector<AcrossNodes> across_nodes(const std::vector<ClaimSetting>& settings);

}  // namespace gradsync::summary
