#include "harness/summary/claim_findings.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/units.h"
#include "harness/summary/sameness.h"
#include "harness/text/labels.h"

namespace gradsync::summary {

using results::CellResult;
using results::StepRatio;

namespace {

// "2.57x [2.55, 2.58] of no_sync"; without an interval also why nothing follows from it.
std::string effect_text(const StepRatio& ratio, const char* of) {
  std::string text = fmt::format("{} of {}", text::ratio_text(ratio), of);
  if (!ratio.ci95)
    text += fmt::format(" in {}, no interval", text::launches_that_ran(ratio.launches));
  return text;
}

// Why a row has no comparison with another.
Finding without_ratio(const CellResult& cell, const Known<StepRatio>& ratio) {
  const std::string name = text::strategy_label(cell.cell.strategy());
  if (!cell.is_ok()) {
    return {.sentence =
                fmt::format("{}: {}: {}", name, results::to_string(cell.status), cell.reason)};
  }
  return {.sentence = fmt::format("{}: {}", name,
                                  ratio.why_not().empty() ? "no comparison" : ratio.why_not())};
}

// Returns the finding that `decide` makes of the interval, if there is one. `subject` and `of`:
// what is compared with what. `open`: the words for an interval that decides nothing.
template <typename Decide>
Finding finding_of(const StepRatio& ratio, const std::string& subject, const char* of,
                   const std::string& open, const Decide& decide) {
  Finding found{.sentence = fmt::format("{} takes {}", subject, effect_text(ratio, of)),
                .effect = ratio};
  if (ratio.ci95) found.verdict = decide(*ratio.ci95);
  if (ratio.ci95 && found.verdict == GuideVerdict::Undecided) found.sentence += ": " + open;
  return found;
}

// "a saving of more than 3 % is not excluded"
std::string margin_open(const char* what) {
  return fmt::format("{} of more than {:g} % is not excluded", what, 100 * kSameWithin);
}

// Whether the first moves fewer bytes than the second, or in fewer collectives: exact.
bool moves_less(const CellResult& cell, const CellResult& than) {
  if (!cell.collectives_per_step || !than.collectives_per_step) return false;
  const auto less = [&](const auto& entry) {
    const auto found = cell.collectives_per_step->find(entry.first);
    return found == cell.collectives_per_step->end() || found->second.count < entry.second.count ||
           found->second.bytes < entry.second.bytes;
  };
  return std::ranges::any_of(*than.collectives_per_step, less);
}

bool ran_out(const CellResult& cell) {
  return cell.status == results::Status::Oom;
}

std::string fate_of(const CellResult& cell) {
  const std::string name = text::strategy_label(cell.cell.strategy());
  if (ran_out(cell)) {
    const auto budget = cell.cell.memory_budget_bytes();
    std::string text = fmt::format("{} runs out of {}", name,
                                   budget ? format_bytes(*budget) : std::string("memory"));
    if (cell.oom_place) {
      text += fmt::format(" in the {} of micro-batch {}", cell.oom_place->phase,
                          cell.oom_place->micro_batch);
    }
    return text;
  }
  if (!cell.is_ok()) {
    return fmt::format("{}: {}: {}", name, results::to_string(cell.status), cell.reason);
  }
  if (!cell.peak_allocated_bytes) return name + " fits";
  return fmt::format("{} fits, with a peak of {}", name,
                     format_bytes(static_cast<double>(*cell.peak_allocated_bytes)));
}

}  // namespace

Finding costs(const CellResult& cell) {
  if (!cell.is_ok() || !cell.slowdown) return without_ratio(cell, cell.slowdown);
  return finding_of(*cell.slowdown, text::strategy_label(cell.cell.strategy()), "no_sync",
                    "the interval holds 1", [](const stats::Interval& ci95) {
                      if (ci95.lo > 1) return GuideVerdict::Holds;
                      return is_not_slower(ci95) ? GuideVerdict::DoesNotHold
                                                 : GuideVerdict::Undecided;
                    });
}

Finding saves_nothing(const CellResult& improper, const CellResult& baseline) {
  const Known<StepRatio> ratio = improper.vs_baseline.value_or(Known<StepRatio>());
  if (!improper.is_ok() || !ratio) return without_ratio(improper, ratio);
  Finding found = finding_of(*ratio, "no_sync around backward alone", "the baseline",
                             margin_open("a saving"), [](const stats::Interval& ci95) {
                               if (is_not_faster(ci95)) return GuideVerdict::Holds;
                               return ci95.hi < 1 - kSameWithin ? GuideVerdict::DoesNotHold
                                                                : GuideVerdict::Undecided;
                             });
  if (!baseline.is_ok()) return found;
  if (moves_less(improper, baseline)) {
    found.verdict = GuideVerdict::DoesNotHold;
    found.sentence += "; it moves less";
  } else if (improper.collectives_per_step && baseline.collectives_per_step) {
    found.sentence += "; it moves no byte less";
  }
  return found;
}

Finding does_as_well(const CellResult& accumulate) {
  if (!accumulate.is_ok() || !accumulate.slowdown) {
    return without_ratio(accumulate, accumulate.slowdown);
  }
  return finding_of(*accumulate.slowdown, "accumulate", "no_sync", margin_open("a difference"),
                    [](const stats::Interval& ci95) {
                      if (is_not_faster(ci95) && is_not_slower(ci95)) return GuideVerdict::Holds;
                      const bool apart = ci95.lo > 1 + kSameWithin || ci95.hi < 1 - kSameWithin;
                      return apart ? GuideVerdict::DoesNotHold : GuideVerdict::Undecided;
                    });
}

Finding costs_more(const CellResult& between, const CellResult& within) {
  for (const CellResult* cell : {&between, &within}) {
    if (!cell->is_ok() || !cell->slowdown) return without_ratio(*cell, cell->slowdown);
  }
  Finding found{.sentence = fmt::format("{} takes {}, within one node {}",
                                        text::strategy_label(between.cell.strategy()),
                                        effect_text(*between.slowdown, "no_sync"),
                                        effect_text(*within.slowdown, "no_sync")),
                .effect = *between.slowdown};
  const auto& far = between.slowdown->ci95;
  const auto& near = within.slowdown->ci95;
  if (!far || !near) return found;
  if (far->lo > near->hi) found.verdict = GuideVerdict::Holds;
  if (far->hi < near->lo) found.verdict = GuideVerdict::DoesNotHold;
  if (found.verdict == GuideVerdict::Undecided) found.sentence += ": the intervals overlap";
  return found;
}

Finding runs_out(const CellResult& none, const CellResult& each) {
  Finding found{.sentence = fate_of(none) + "; " + fate_of(each)};
  const auto ended = [](const CellResult& cell) { return cell.is_ok() || ran_out(cell); };
  if (!ended(none) || !ended(each)) return found;
  found.verdict = ran_out(none) && each.is_ok() ? GuideVerdict::Holds : GuideVerdict::DoesNotHold;
  return found;
}

}  // namespace gradsync::summary
