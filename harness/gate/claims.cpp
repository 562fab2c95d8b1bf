#include "harness/gate/claims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "harness/base/json_fields.h"
#include "harness/gate/launch_level.h"
#include "harness/plan/cell.h"
#include "harness/stats/interval.h"
#include "harness/summary/cell_group.h"
#include "harness/summary/cell_summary.h"
#include "harness/summary/comparison.h"
#include "harness/text/labels.h"

namespace gradsync::gate {

using nlohmann::json;
using summary::CellGroup;

namespace {

constexpr int kMostLaunches = 100;  // more than these nobody waits for

bool contains(const Allowed& allowed, const stats::Interval& interval) {
  return (!allowed.lo || interval.lo >= *allowed.lo) && (!allowed.hi || interval.hi <= *allowed.hi);
}

bool excludes(const Allowed& allowed, const stats::Interval& interval) {
  return (allowed.lo && interval.hi < *allowed.lo) || (allowed.hi && interval.lo > *allowed.hi);
}

// How far `ratio` lies from the nearest end.
double distance(const Allowed& allowed, double ratio) {
  double nearest = INFINITY;
  for (const auto& end : {allowed.lo, allowed.hi}) {
    if (end) nearest = std::min(nearest, std::abs(ratio - *end));
  }
  return nearest;
}

// Returns how many launches would decide; nothing where they are too many. An interval shrinks as
// the root of the launches that are behind it.
std::optional<std::size_t> launches_needed(const Allowed& allowed, double ratio,
                                           const stats::Interval& interval, std::size_t launches) {
  const double half = std::max(interval.hi - ratio, ratio - interval.lo);
  const double wanted = distance(allowed, ratio);
  const double needed = static_cast<double>(launches) * std::pow(half / wanted, 2);
  if (!(needed <= kMostLaunches)) return std::nullopt;
  return std::max(static_cast<std::size_t>(std::ceil(needed)), launches + 1);
}

// Returns why the times of this row do not count; nothing where they do.
std::optional<ClaimGrounds> objection(const results::Context& context, const CellGroup& group) {
  const summary::GroupOutcome outcome = summary::outcome_of(group);
  if (outcome.status != results::Status::Ok) {
    return ClaimGrounds{ClaimReason::NotOk, group.cell.strategy(), outcome.status, outcome.reason};
  }
  const std::string no_times = summary::timing_objection(context, group);
  if (no_times.empty()) return std::nullopt;
  return ClaimGrounds{.reason = ClaimReason::NoTimes, .given = no_times};
}

void judge(const Claim& claim, const CellGroup& above, const CellGroup& below, double level,
           ClaimOutcome& outcome) {
  outcome.ratio = summary::compare_steps(above, below);
  if (!outcome.ratio) {
    outcome.grounds.reason = ClaimReason::NoSharedRound;
    return;
  }
  outcome.ratio->vs.clear();
  const std::size_t launches = outcome.ratio->launches;
  const auto ends = summary::compare_steps(above, below, level)->ci95;
  if (launches < kFewestLaunchesToDecide || !ends) {
    outcome.verdict = Verdict::Undecided;
    outcome.grounds.reason = ClaimReason::TooFewLaunches;
    return;
  }
  outcome.grounds = {.reason = ClaimReason::Across, .at_level = ends, .level = level};
  const Allowed allowed = claim.allowed();
  if (contains(allowed, *ends)) {
    outcome.verdict = Verdict::Pass;
    outcome.grounds.reason = ClaimReason::Holds;
  } else if (excludes(allowed, *ends)) {
    outcome.verdict = Verdict::Regression;
    outcome.grounds.reason = ClaimReason::Outside;
  } else {
    outcome.verdict = Verdict::Undecided;
    outcome.grounds.launches_needed =
        launches_needed(allowed, outcome.ratio->ratio, *ends, launches);
  }
}

const CellGroup* group_with(const std::vector<CellGroup>& groups, const std::string& part,
                            const plan::Cell& cell) {
  for (const CellGroup& group : groups) {
    if (group.part == part && plan::cell_from_json(group.cell.written(), "a row") == cell)
      return &group;
  }
  return nullptr;
}

// "baseline", or "accumulation_steps 8": one side of a ratio.
std::string side_name(const json& parameters) {
  std::vector<std::string> words;
  for (const auto& [name, value] : parameters.items()) {
    const std::string text = text::plain_text(value);
    words.push_back(name == "strategy" ? text::strategy_label(text)
                                       : fmt::format("{} {}", name, text));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

Row row_of(const CellGroup& group) {
  return {group.part, group.cell};
}

// A pair of rows that a claim is about.
struct ClaimedPair {
  const Claim* claim = nullptr;
  const CellGroup* above = nullptr;
  const CellGroup* below = nullptr;  // null: of a claim without rows, and so is above
};

ClaimOutcome outcome_of(const Claim& claim, const results::Context& context, const CellGroup& above,
                        const CellGroup& below, double level) {
  ClaimOutcome outcome;
  outcome.about = claim.about;
  outcome.name = fmt::format("{} / {}", side_name(claim.above), side_name(claim.below));
  outcome.row = row_of(above);
  outcome.over = row_of(below);
  outcome.need = claim.need();
  outcome.allowed = claim.allowed();
  auto objects = objection(context, above);
  if (!objects) objects = objection(context, below);
  if (objects) {
    outcome.grounds = *std::move(objects);
  } else {
    judge(claim, above, below, level, outcome);
  }
  return outcome;
}

ClaimOutcome unmeasured(const Claim& claim) {
  ClaimOutcome outcome;
  outcome.about = claim.about;
  outcome.name = claim.about;
  outcome.need = claim.need();
  outcome.allowed = claim.allowed();
  return outcome;
}

// In the order of the claims; one without rows for a claim that is about none.
std::vector<ClaimedPair> claimed_pairs(const std::vector<Claim>& claims,
                                       const std::vector<CellGroup>& groups) {
  std::vector<ClaimedPair> pairs;
  for (const Claim& claim : claims) {
    const std::size_t before = pairs.size();
    const RowFilter above = RowFilter::of(claim.above, "ratio");
    for (const CellGroup& group : groups) {
      const Row row = row_of(group);
      if (!claim.where.matches(row) || !above.matches(row)) continue;
      const CellGroup* below =
          group_with(groups, group.part, cell_with(row.cell, claim.below, "ratio"));
      if (below != nullptr) pairs.push_back({&claim, &group, below});
    }
    if (pairs.size() == before) pairs.push_back({&claim});
  }
  return pairs;
}

// The row without what its claim is about anyway.
Row place_of(const Claim& claim, Row row) {
  for (const auto& [name, value] : claim.above.items()) row.cell = row.cell.without({name.c_str()});
  return row;
}

}  // namespace

void to_json(json& out, const ClaimOutcome& outcome) {
  const auto row_or_null = [](const Row& row) {
    return row.cell.empty() ? json() : json{{"part", row.part}, {"cell", row.cell.written()}};
  };
  out = {{"about", outcome.about},
         {"name", outcome.name},
         {"row", row_or_null(outcome.row)},
         {"over", row_or_null(outcome.over)},
         {"need", "need " + outcome.need},
         {"allowed", json::array({optional_to_json(outcome.allowed.lo),
                                  optional_to_json(outcome.allowed.hi)})},
         {"ratio", optional_to_json(outcome.ratio)},
         {"verdict", to_string(outcome.verdict)},
         {"reason", outcome.reason}};
}

std::vector<ClaimOutcome> evaluate_claims(const std::vector<Claim>& claims,
                                          const summary::FinishedRun& run, double alpha) {
  const auto groups = summary::group_by_cell(run.result.plan, run.trials, {});
  const std::vector<ClaimedPair> pairs = claimed_pairs(claims, groups);
  const auto judged = std::count_if(pairs.begin(), pairs.end(),
                                    [](const ClaimedPair& pair) { return pair.above != nullptr; });
  const double level = level_for(alpha, static_cast<std::size_t>(judged));
  std::vector<ClaimOutcome> outcomes;
  std::vector<Row> places;
  for (const ClaimedPair& pair : pairs) {
    if (pair.above == nullptr) {
      outcomes.push_back(unmeasured(*pair.claim));
      continue;
    }
    outcomes.push_back(
        outcome_of(*pair.claim, run.result.context, *pair.above, *pair.below, level));
    places.push_back(place_of(*pair.claim, row_of(*pair.above)));
  }
  const auto names = place_names(places);
  auto place = names.begin();
  for (ClaimOutcome& outcome : outcomes) {
    outcome.reason = sentence(outcome);
    if (!outcome.row.cell.empty()) outcome.name += ", " + *place++;
  }
  return outcomes;
}

}  // namespace gradsync::gate
