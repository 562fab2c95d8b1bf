#include "harness/report/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/report/labels.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

// A single pair tells nothing apart, however far from 1 it lies.
bool told_apart(const json& comparison) {
  const json& ci95 = comparison["ci95"];
  return ci95.is_array() && (ci95[0].get<double>() > 1 || ci95[1].get<double>() < 1);
}

// The comparison under `field` of the cell with this strategy, or nullptr.
const json* comparison_of(const PartView& part, const json& setting, const std::string& strategy,
                          const char* field) {
  const json* cell = find_strategy(part, setting, strategy);
  if (!cell || cell->value("status", "") != "ok") return nullptr;
  const auto found = cell->find(field);
  return found != cell->end() && found->is_object() ? &*found : nullptr;
}

std::string cost_clause(const json& slowdown) {
  const std::string ratio = ratio_text(slowdown);
  if (!slowdown["ci95"].is_array()) {
    return fmt::format("syncing every micro-batch cost {} in the one pair of blocks that ran",
                       ratio);
  }
  if (!told_apart(slowdown)) {
    return fmt::format("syncing every micro-batch costs nothing that could be told apart ({})",
                       ratio);
  }
  return fmt::format("syncing every micro-batch costs {}", ratio);
}

std::string improper_clause(const json& against_baseline) {
  const double saved = 1 - against_baseline["ratio"].get<double>();
  if (saved <= kSameWithin || (!told_apart(against_baseline) && saved <= 3 * kSameWithin)) {
    return "; a no_sync that misses forward saves nothing";
  }
  const std::string ratio = ratio_text(against_baseline);
  return fmt::format("; a no_sync that misses forward takes {} of the baseline", ratio);
}

std::string accumulate_clause(const json& slowdown) {
  if (std::abs(slowdown["ratio"].get<double>() - 1) <= kSameWithin) {
    return "; accumulate does as well as no_sync";
  }
  return told_apart(slowdown)
             ? fmt::format("; accumulate takes {} of no_sync", ratio_text(slowdown))
             : "";
}

std::string place_text(const PartView& part, const json& setting, bool links_needed) {
  const TopologyLabel topology = topology_label(part.context, setting);
  std::string text = "On " + (topology.nodes > 0 ? counted(static_cast<std::size_t>(topology.nodes),
                                                           "node", "nodes")
                                                 : topology.shape);
  if (links_needed) text = "On " + topology.text();
  for (const std::string& name : part.varying_parameters()) {
    text += fmt::format(", {} {}", name, parameter_text(setting["cell"], name));
  }
  return text + (is_paced(setting) ? " (paced compute)" : "");
}

}  // namespace

std::string findings(const PartView& part) {
  const auto settings = settings_of(part);
  std::vector<std::string> places;
  places.reserve(settings.size());
  for (const json& setting : settings) places.push_back(place_text(part, setting, false));
  std::string text;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const json* cost = comparison_of(part, settings[i], "baseline", "slowdown");
    if (!cost) continue;
    const bool ambiguous = std::count(places.begin(), places.end(), places[i]) > 1;
    text += place_text(part, settings[i], ambiguous) + ", " + cost_clause(*cost);
    if (const json* improper =
            comparison_of(part, settings[i], "no_sync_improper", "vs_baseline")) {
      text += improper_clause(*improper);
    }
    if (const json* accumulate = comparison_of(part, settings[i], "accumulate", "slowdown")) {
      text += accumulate_clause(*accumulate);
    }
    text += ".\n";
  }
  return text;
}

}  // namespace gradsync::report
