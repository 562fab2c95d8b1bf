#include "harness/gate/against.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "harness/gate/launch_level.h"
#include "harness/report/labels.h"

namespace gradsync::gate {

using nlohmann::json;
using report::FinishedRun;
using results::TrialRecord;

namespace {

using Trials = std::vector<const TrialRecord*>;

Row row_of(const json& entry) {
  return {entry["part"].get<std::string>(), entry["cell"]};
}

std::vector<Row> rows_of(const json& entries) {
  std::vector<Row> rows;
  for (const json& entry : entries) rows.push_back(row_of(entry));
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
Effect effect_from(const json& step_ratio) {
  Effect effect{step_ratio["ratio"].get<double>() - 1, std::nullopt};
  const json& ci95 = step_ratio["ci95"];
  if (ci95.is_array()) {
    effect.ci95 = stats::Interval{ci95[0].get<double>() - 1, ci95[1].get<double>() - 1};
  }
  return effect;
}

RowDecision undecided(const std::string& reason) {
  RowDecision decision;
  decision.verdict = Verdict::Undecided;
  decision.reason = reason;
  decision.is_open = false;
  return decision;
}

// `effect` has the interval that is printed in tables, `corrected` that at the level for all rows.
RowDecision decide_by_interval(const Effect& effect, const Effect& corrected,
                               const std::string& level, const Settings& settings) {
  RowDecision decision = undecided("");
  decision.measures[Measure::Mean].effect = effect;
  const std::string measured = to_text(corrected) + " at " + level;
  if (corrected.ci95->lo > settings.margin) {
    decision.verdict = Verdict::Regression;
    decision.reason =
        fmt::format("{}, all of it above the margin of {:g} %", measured, 100 * settings.margin);
  } else if (corrected.ci95->hi < settings.smallest_effect) {
    decision.verdict = Verdict::Pass;
    decision.reason = measured;
  } else {
    decision.smallest_visible = corrected.ci95->hi;
    decision.reason = fmt::format(
        "{}: the interval reaches from below the margin of {:g} % to the smallest effect of {:g} % "
        "or beyond; two builds that take turns are told apart better",
        measured, 100 * settings.margin, 100 * settings.smallest_effect);
  }
  return decision;
}

int fewest_launches(const json& cell) {
  return std::min(cell["a"]["launches"].get<int>(), cell["b"]["launches"].get<int>());
}

RowDecision decide_times(const json& cell, const json& corrected, double level,
                         const Settings& settings) {
  const Effect effect = effect_from(cell["step_ratio"]);
  const int launches = fewest_launches(cell);
  const Effect at_level = effect_from(corrected["step_ratio"]);
  if (launches >= kFewestLaunchesToDecide && at_level.ci95) {
    return decide_by_interval(effect, at_level, level_text(level), settings);
  }
  RowDecision decision = undecided(fmt::format(
      "{}, but a side has {}: {} of each are needed to decide on times", to_text(effect),
      report::counted(static_cast<std::size_t>(launches), "launch", "launches"),
      kFewestLaunchesToDecide));
  decision.measures[Measure::Mean].effect = effect;
  return decision;
}

// Whether the run has times of this row, whatever they may be compared with.
bool has_times(const FinishedRun& run, const Row& row) {
  const json& cells = run.result["cells"];
  return std::any_of(cells.begin(), cells.end(), [&](const json& cell) {
    return row_of(cell) == row && cell["step_s"].is_object();
  });
}

// How many rows have a ratio of times: each may be a false alarm.
std::size_t timed_rows(const json& cells) {
  return static_cast<std::size_t>(std::count_if(
      cells.begin(), cells.end(), [](const json& cell) { return cell["step_ratio"].is_object(); }));
}

// `corrected` is the same cell with its interval at `level`.
RowReport report_on(const json& cell, const json& corrected, double level,
                    const FinishedRun& baseline, const FinishedRun& candidate,
                    const Settings& settings, bool times) {
  RowReport report;
  report.row = row_of(cell);
  report.took_turns = false;
  const Row in_baseline{cell["a"]["part"].get<std::string>(), report.row.cell};
  const Row in_candidate{cell["b"]["part"].get<std::string>(), report.row.cell};
  report.counts =
      compare_counts(trials_of(baseline, in_baseline), trials_of(candidate, in_candidate));
  if (!times) {
    report.no_times_because = "counts and bytes only";
  } else if (!has_times(baseline, in_baseline) && !has_times(candidate, in_candidate)) {
    report.no_times_because =
        "neither run has times; " + cell["null_reasons"]["step_ratio"].get<std::string>();
  } else if (cell["step_ratio"].is_object()) {
    report.times = decide_times(cell, corrected, level, settings);
  } else {
    report.times = undecided(cell["null_reasons"]["step_ratio"].get<std::string>());
  }
  report.starts = fewest_launches(cell);
  return report;
}

Side side_of(const json& run) {
  return {run["directory"].get<std::string>(), run["context"]};
}

// The parts of `comparison` that concern these rows.
json selected(const json& entries, const std::vector<Row>& rows) {
  json kept = json::array();
  for (const json& entry : entries) {
    if (std::find(rows.begin(), rows.end(), row_of(entry)) != rows.end()) kept.push_back(entry);
  }
  return kept;
}

void select(json& comparison, const std::vector<RowFilter>& filters) {
  std::vector<Row> all;
  for (const char* list : {"cells", "only_in_a", "only_in_b"}) {
    for (const Row& row : rows_of(comparison[list])) all.push_back(row);
  }
  const std::vector<Row> kept = select_rows(all, filters);
  for (const char* list : {"cells", "only_in_a", "only_in_b"}) {
    comparison[list] = selected(comparison[list], kept);
  }
}

}  // namespace

GateReport judge_against(const FinishedRun& baseline, const FinishedRun& candidate,
                         const Settings& settings, const AgainstOptions& options) {
  json comparison = report::compare_runs(baseline, candidate);
  select(comparison, options.rows);
  GateReport report;
  report.plan = report::plain_text(comparison["b"]["plan"]);
  report.baseline = side_of(comparison["a"]);
  report.candidate = side_of(comparison["b"]);
  report.settings = {{"margin", settings.margin},
                     {"smallest_effect", settings.smallest_effect},
                     {"alpha", settings.alpha}};
  report.differences = comparison["differences"];
  const json& cells = comparison["cells"];
  const double level = level_for(settings.alpha, timed_rows(cells));
  json corrected = report::compare_runs(baseline, candidate, level);
  select(corrected, options.rows);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    report.rows.push_back(report_on(cells[i], corrected["cells"][i], level, baseline, candidate,
                                    settings, options.times));
  }
  for (const MissingRow& missing :
       missing_rows(rows_of(comparison["only_in_a"]), rows_of(comparison["only_in_b"]))) {
    RowReport row;
    row.row = missing.row;
    row.counts = RowCounts{{missing.difference}, ""};
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
