#include "harness/report/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/summary/sameness.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using results::StepRatio;

namespace {

// A comparison of the cell with this strategy; nullptr where there is none.
const StepRatio* in_cell(const CellResult* cell, const Known<StepRatio>& ratio) {
  return cell->is_ok() && ratio ? &*ratio : nullptr;
}

const StepRatio* slowdown_of(const PartView& part, const CellResult& setting,
                             const std::string& strategy) {
  const CellResult* cell = find_strategy(part, setting, strategy);
  return cell == nullptr ? nullptr : in_cell(cell, cell->slowdown);
}

const StepRatio* improper_vs_baseline(const PartView& part, const CellResult& setting) {
  const CellResult* cell = find_strategy(part, setting, "no_sync_improper");
  return cell == nullptr || !cell->vs_baseline ? nullptr : in_cell(cell, *cell->vs_baseline);
}

std::string cost_clause(const StepRatio& slowdown) {
  const std::string ratio = ratio_text(slowdown);
  if (!slowdown.ci95) {
    return fmt::format("syncing every micro-batch cost {} in {}", ratio,
                       launches_that_ran(slowdown.launches));
  }
  if (!slowdown.is_told_apart()) {
    return fmt::format("syncing every micro-batch costs nothing that could be told apart ({})",
                       ratio);
  }
  return fmt::format("syncing every micro-batch costs {}", ratio);
}

// What is said of a way from its ratio to another: that the two are the same, as far as the whole
// interval is near 1; how far apart they are; or that neither is known.
struct Sayings {
  std::string subject;       // "accumulate"
  std::string same;          // "does as well as no_sync"
  std::string of;            // "no_sync"
  bool faster_only = false;  // being slower is the same thing: it saves nothing
};

std::string clause(const StepRatio& comparison, const Sayings& say) {
  const std::string ratio = ratio_text(comparison);
  const auto& ci95 = comparison.ci95;
  if (!ci95) return fmt::format("; {} took {} of {}", say.subject, ratio, say.of);
  if (is_not_faster(*ci95) && (say.faster_only || is_not_slower(*ci95)))
    return fmt::format("; {} {}", say.subject, say.same);
  const char* verb = comparison.is_told_apart() ? "takes" : "could not be told apart:";
  return fmt::format("; {} {} {} of {}", say.subject, verb, ratio, say.of);
}

std::string place_text(const PartView& part, const CellResult& setting, bool links_needed) {
  const TopologyLabel topology = topology_label(part.context, setting);
  std::string text = "On " + (topology.nodes > 0 ? counted(static_cast<std::size_t>(topology.nodes),
                                                           "node", "nodes")
                                                 : topology.shape);
  if (links_needed) text = "On " + topology.text();
  for (const std::string& name : part.varying_parameters()) {
    text += fmt::format(", {} {}", name, parameter_text(setting.cell, name));
  }
  return text + (is_paced(setting) ? " (paced compute)" : "");
}

}  // namespace

std::string findings(const PartView& part) {
  const auto settings = settings_of(part);
  std::vector<std::string> places;
  places.reserve(settings.size());
  for (const CellResult& setting : settings) places.push_back(place_text(part, setting, false));
  std::string text;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const StepRatio* cost = slowdown_of(part, settings[i], "baseline");
    if (!cost) continue;
    const bool ambiguous = std::count(places.begin(), places.end(), places[i]) > 1;
    text += place_text(part, settings[i], ambiguous) + ", " + cost_clause(*cost);
    if (const StepRatio* improper = improper_vs_baseline(part, settings[i])) {
      text += clause(*improper,
                     {"a no_sync that misses forward", "saves nothing", "the baseline", true});
    }
    if (const StepRatio* accumulate = slowdown_of(part, settings[i], "accumulate")) {
      text += clause(*accumulate, {"accumulate", "does as well as no_sync", "no_sync"});
    }
    text += ".\n";
  }
  return text;
}

}  // namespace gradsync::report
