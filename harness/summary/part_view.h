// One part of a result, for its tables and sentences: the facts that they all need (names of its
// cells, what varies, which cells belong together) are found once, when it is made.
#pragma once

#include <string>
#include <vector>

#include "harness/results/result.h"
#include "harness/summary/cell_name.h"
#include "harness/summary/timed_steps.h"

namespace gradsync::summary {

struct CellView : results::CellResult {
  CellName name;
  // Counts the topologies and shardings of the part, in the order in which they come.
  std::size_t sharding_group = 0;
};

// The cells of a part that differ in strategy alone, in the order of the part; at least one.
struct Setting {
  std::vector<const CellView*> cells;

  const CellView& first() const { return *cells.front(); }   // for all that they share
  const CellView* under(const std::string& strategy) const;  // nullptr: it was not asked for

  // Comparisons of a cell that ended well; nullptr where there is none.
  const results::StepRatio* slowdown_of(const std::string& strategy) const;  // against no_sync
  const results::StepRatio* improper_vs_baseline() const;
};

// Its settings point into its cells: it moves, and is not copied.
struct PartView {
  PartView(std::string name, std::string about, std::vector<CellView> cells);
  PartView(PartView&&) = default;

  std::string name;
  std::string about;                 // from the plan; may be empty
  std::vector<CellView> cells;       // in the order of the result
  std::vector<Setting> settings;     // in that order, too
  std::vector<std::string> varying;  // parameters that differ, without topology and strategy
  bool timing_valid = true;          // of the run (results::Context)
  bool is_on_nccl = false;           // its times of collectives are NCCL's
  bool is_paced = false;             // any of its cells
  bool several_topologies = false;
  // Rows of FSDP differ in what decides about memory (accumulation, sharding, dtypes, budget) or
  // have a budget: its reader asks what fits before how fast.
  bool is_about_memory = false;
  int decimals = 3;  // for the seconds of its steps (labels.h)
  TimedSteps timed;
  std::string step_size;            // "4 micro-batches"; where cells differ, what says how many
  std::vector<results::Law> laws;   // of its sweeps
  std::vector<results::Best> best;  // where its options vary
  std::vector<results::ParetoFront> fronts;  // where its levers vary

  bool varies(const std::string& parameter) const;
};

// Returns the parts of a result in the order of their cells.
std::vector<PartView> parts_of(const results::Result& result);

}  // namespace gradsync::summary
