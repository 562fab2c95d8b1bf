// What a sweep over accumulation_steps says of all its cells at once: the law of stats/step_law.h,
// fitted across the strategies.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/report/part_view.h"

namespace gradsync::report {

// Returns an entry of "laws" in result.json for each set of cells of the part that differ in
// strategy and accumulation_steps alone, where at least three accumulations have times and the
// strategies tell the costs apart: {"part", "cell", "fixed_s", "micro_batch_s", "sync_s",
// "largest_residual", "largest_error", "points"}. Errors are shares of the measured time; those of
// the points that were fitted are residuals. "largest_error" is null where none was held out.
// Wrappers ddp and fsdp alone: what else synchronizes does so by other rules.
std::vector<nlohmann::json> step_laws(const PartView& part);

// Returns a sentence for each law, or "".
std::string step_law_sentences(const PartView& part);

}  // namespace gradsync::report
