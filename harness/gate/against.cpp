#include "harness/gate/against.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "harness/gate/claims.h"
#include "harness/gate/launch_level.h"

namespace gradsync::gate {

using results::TrialRecord;
using summary::ComparedCell;
using summary::FinishedRun;
using summary::RunComparison;

namespace {

using Trials = std::vector<const TrialRecord*>;

// Works for a cell that both runs have, and for one that a run has alone.
template <typename Cell>
Row row_of(const Cell& cell) {
  return {cell.part, cell.cell};
}

template <typename Cell>
std::vector<Row> rows_of(const std::vector<Cell>& cells) {
  std::vector<Row> rows;
  for (const Cell& cell : cells) rows.push_back(row_of(cell));
  return rows;
}

Trials trials_of(const FinishedRun& run, const Row& row) {
  Trials trials;
  for (const TrialRecord& trial : run.trials) {
    if (trial.part == row.part && trial.cell == row.cell) trials.push_back(&trial);
  }
  std::stable_sort(trials.begin(), trials.end(),
                   [](const auto* left, const auto* right) { return left->order < right->order; });
  return trials;
}

// A ratio of steps as the share by which they are slower.
Effect effect_from(const results::Ratio& ratio) {
  Effect effect{ratio.ratio - 1, std::nullopt};
  if (ratio.ci95) effect.ci95 = stats::Interval{ratio.ci95->lo - 1, ratio.ci95->hi - 1};
  return effect;
}

// Returns an undecided row, whose `effect` tables print.
RowDecision undecided(RowGrounds grounds, const std::optional<Effect>& effect = std::nullopt) {
  RowDecision decision;
  decision.grounds = std::move(grounds);
  decision.is_open = false;
  decision.measures[Measure::Mean].effect = effect;
  return decision;
}

std::size_t fewest_launches(const ComparedCell& cell) {
  return std::min(cell.a.launches, cell.b.launches);
}

// `corrected` has the interval at `level`, which holds for all rows.
RowDecision decide_times(const ComparedCell& cell, const ComparedCell& corrected, double level,
                         const Settings& settings) {
  if (!cell.step_ratio) return undecided({.given = cell.step_ratio.why_not()});
  const Effect at_level = effect_from(*corrected.step_ratio);
  RowDecision decision =
      undecided({RowReason::TooFewLaunches, Measure::Mean, at_level, level, fewest_launches(cell)},
                effect_from(*cell.step_ratio));
  if (decision.grounds.launches < kFewestLaunchesToDecide || !at_level.ci95) return decision;
  if (at_level.ci95->lo > settings.margin) {
    decision.verdict = Verdict::Regression;
    decision.grounds.reason = RowReason::IntervalAbove;
  } else if (at_level.ci95->hi < settings.smallest_effect) {
    decision.verdict = Verdict::Pass;
    decision.grounds.reason = RowReason::IntervalBelow;
  } else {
    decision.smallest_visible = at_level.ci95->hi;
    decision.grounds.reason = RowReason::IntervalAcross;
  }
  return decision;
}

// Whether the run has times of this row, whatever they may be compared with.
bool has_times(const FinishedRun& run, const Row& row) {
  return std::ranges::any_of(run.result.cells, [&](const results::CellResult& cell) {
    return cell.step_s && row_of(cell) == row;
  });
}

// How many rows have a ratio of times: each may be a false alarm.
std::size_t timed_rows(const std::vector<ComparedCell>& cells) {
  return static_cast<std::size_t>(std::ranges::count_if(
      cells, [](const ComparedCell& cell) { return static_cast<bool>(cell.step_ratio); }));
}

// `corrected` is the same cell with its interval at `level`.
RowReport report_on(const ComparedCell& cell, const ComparedCell& corrected, double level,
                    const FinishedRun& baseline, const FinishedRun& candidate,
                    const Settings& settings, bool times) {
  RowReport report;
  report.row = row_of(cell);
  report.took_turns = false;
  const Row in_baseline{cell.a.part, report.row.cell};
  const Row in_candidate{cell.b.part, report.row.cell};
  report.counts =
      compare_counts(trials_of(baseline, in_baseline), trials_of(candidate, in_candidate));
  if (!times) {
    report.no_times_because = "counts and bytes only";
  } else if (!has_times(baseline, in_baseline) && !has_times(candidate, in_candidate)) {
    report.no_times_because = "neither run has times; " + cell.step_ratio.why_not();
  } else {
    report.times = decide_times(cell, corrected, level, settings);
    report.times->reason = sentence(*report.times, settings);
  }
  report.starts = static_cast<int>(fewest_launches(cell));
  return report;
}

Side side_of(const summary::ComparedRun& run) {
  return {run.directory, run.context};
}

// Keeps the rows that the filters select.
void select(RunComparison& comparison, const std::vector<RowFilter>& filters) {
  std::vector<Row> all = rows_of(comparison.cells);
  for (const auto* list : {&comparison.only_in_a, &comparison.only_in_b}) {
    for (const Row& row : rows_of(*list)) all.push_back(row);
  }
  const std::vector<Row> kept = select_rows(all, filters);
  const auto is_left_out = [&](const auto& cell) {
    return std::ranges::find(kept, row_of(cell)) == kept.end();
  };
  std::erase_if(comparison.cells, is_left_out);
  std::erase_if(comparison.only_in_a, is_left_out);
  std::erase_if(comparison.only_in_b, is_left_out);
}

}  // namespace

GateReport judge_against(const FinishedRun& baseline, const FinishedRun& candidate,
                         const Settings& settings, const AgainstOptions& options) {
  RunComparison comparison = summary::compare_runs(baseline, candidate);
  select(comparison, options.rows);
  GateReport report;
  report.plan = comparison.b.plan.value_or("null");
  report.baseline = side_of(comparison.a);
  report.candidate = side_of(comparison.b);
  report.asked = Asked{settings, false};
  report.differences = comparison.differences;
  const auto& cells = comparison.cells;
  const double level = level_for(settings.alpha, timed_rows(cells));
  RunComparison corrected = summary::compare_runs(baseline, candidate, level);
  select(corrected, options.rows);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    report.rows.push_back(report_on(cells[i], corrected.cells[i], level, baseline, candidate,
                                    settings, options.times));
  }
  for (const MissingRow& missing :
       missing_rows(rows_of(comparison.only_in_a), rows_of(comparison.only_in_b))) {
    RowReport row;
    row.row = missing.row;
    row.counts = RowCounts{{missing.difference}, "", ""};
    row.no_times_because = missing.difference.sentence;
    row.took_turns = false;
    report.rows.push_back(std::move(row));
  }
  const bool timed = std::any_of(report.rows.begin(), report.rows.end(), [](const RowReport& row) {
    return row.times && row.times->measures[Measure::Mean].effect;
  });
  if (timed) {
    report.notes.emplace_back(
        "the two runs did not take turns: whatever changed on the machine between them is in the "
        "times, too");
  }
  return report;
}

std::string other_outcome(const GateReport& report) {
  std::vector<Row> rows;
  for (const RowReport& row : report.rows) rows.push_back(row.row);
  const auto names = row_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!report.rows[i].counts) continue;
    for (const CountDifference& difference : report.rows[i].counts->differences) {
      if (difference.what == "status") return names[i] + ": " + difference.sentence;
    }
  }
  return "";
}

}  // namespace gradsync::gate
