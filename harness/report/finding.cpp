#include "harness/report/findings.h"

#include <fmt/format.h>

#include <map>

#include "harness/summary/sameness.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::StepRatio;
using summary::Setting;

namespace {

std::string cost_clause(const StepRatio& slowdown) {
  const std::string ratio = text::ratio_text(slowdown);
  if (!slowdown.ci95) {
    return fmt::format("syncing every micro-batch cost {} in {}", ratio,
                       text::launches_that_ran(slowdown.launches));
  }
  if (!slowdown.is_clearly_different()) {
    return fmt::format("syncing every micro-batch costs no measurable time ({})", ratio);
  }
  return fmt::format("syncing every micro-batch costs {}", ratio);
}

// The words about a way, by its ratio to another: that the two are the same if the whole interval
// is near 1; how far apart they are; or that neither is known.
struct Sayings {
  std::string subject;       // "accumulate"
  std::string same;          // "does as well as no_sync"
  std::string of;            // "no_sync"
  bool faster_only = false;  // being slower is the same thing: it saves nothing
};

std::string clause(const StepRatio& comparison, const Sayings& say) {
  const std::string ratio = text::ratio_text(comparison);
  const auto& ci95 = comparison.ci95;
  if (!ci95) return fmt::format("; {} took {} of {}", say.subject, ratio, say.of);
  if (summary::is_not_faster(*ci95) && (say.faster_only || summary::is_not_slower(*ci95)))
    return fmt::format("; {} {}", say.subject, say.same);
  const char* verb = comparison.is_clearly_different() ? "takes" : "shows no clear difference:";
  return fmt::format("; {} {} {} of {}", say.subject, verb, ratio, say.of);
}

std::string place_text(const summary::CellView& cell, bool links_needed) {
  const text::TopologyLabel& topology = cell.name.topology;
  const std::string nodes =
      topology.nodes > 0 ? text::counted(static_cast<std::size_t>(topology.nodes), "node", "nodes")
                         : topology.shape;
  return "On " + (links_needed ? topology.text() : nodes) + cell.name.varying_text() +
         (cell.is_paced() ? " (paced compute)" : "");
}

}  // namespace

std::vector<std::string> findings(const summary::PartView& part) {
  std::map<std::string, int> places;
  for (const Setting& setting : part.settings) ++places[place_text(setting.first(), false)];
  std::vector<std::string> sentences;
  for (const Setting& setting : part.settings) {
    const StepRatio* cost = setting.slowdown_of("baseline");
    if (!cost) continue;
    std::string place = place_text(setting.first(), false);
    if (places[place] > 1) place = place_text(setting.first(), true);
    std::string text = place + ", " + cost_clause(*cost);
    if (const StepRatio* improper = setting.improper_vs_baseline()) {
      text += clause(*improper,
                     {"a no_sync that misses forward", "saves nothing", "the baseline", true});
    }
    if (const StepRatio* accumulate = setting.slowdown_of("accumulate")) {
      text += clause(*accumulate, {"accumulate", "does as well as no_sync", "no_sync"});
    }
    sentences.push_back(text + ".");
  }
  return sentences;
}

}  // namespace gradsync::report
