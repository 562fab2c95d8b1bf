// The fastest way to train the same model on the same machines: across strategies and those options
// that change how a step communicates and not what it trains on.
//
// Honest: every cell passed the same checks of what it communicates, was measured in the same
// rounds and synchronizes before the optimizer steps. What is sent in fewer bytes is rounded, so
// the fastest that sends whole gradients has an entry of its own.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/report/cell_group.h"
#include "harness/report/part_view.h"

namespace gradsync::report {

// Returns "best" of result.json. For each set of DDP's cells of one part that differ in strategy
// and options alone, where options vary and one setting has all at their defaults, an entry
// {"part", "among", "cell", "step_s", "of", "vs", "ratio", "ci95", "pairs"} among "all", and one
// among "whole_gradients" where the first compresses them. `of` cells it is the fastest; `vs` is
// the fastest with all options at their defaults, `ratio` the time against that, paired by round.
// `cells`: the entries of result.json, one for each group.
nlohmann::json best_of_all(const std::vector<CellGroup>& groups, const nlohmann::json& cells);

// Returns a sentence for each entry of this part, or "".
std::string best_sentences(const nlohmann::json& best, const PartView& part);

}  // namespace gradsync::report
