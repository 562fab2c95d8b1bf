#include "harness/gate/error_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>

#include "harness/base/errors.h"
#include "harness/gate/traces.h"
#include "harness/stats/error_rates.h"
#include "harness/stats/sample.h"
#include "harness/stats/student.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"

namespace gradsync::gate {

using nlohmann::json;

namespace {

constexpr double kLevel = 0.95;
constexpr std::size_t kFewestStarts = 3;  // for an interval
constexpr std::array kVerdicts = {Verdict::Regression, Verdict::Pass, Verdict::Undecided,
                                  Verdict::Unfit};

using OfGate = std::function<bool(const GateOutcome&)>;
using Shares = std::vector<double>;  // by gate

Shares shares_of(const Replay& replay, const OfGate& holds) {
  Shares shares;
  for (const std::vector<GateOutcome>& outcomes : replay.gates) {
    const auto count = std::count_if(outcomes.begin(), outcomes.end(), holds);
    shares.push_back(static_cast<double>(count) / static_cast<double>(outcomes.size()));
  }
  return shares;
}

bool flags(const GateOutcome& gate, std::size_t row) {
  return gate.rows[row] == Verdict::Regression;
}

// Whether any row is flagged that is the same in both: of all, or of all but the slowed one.
bool is_false_alarm(const GateOutcome& gate) {
  for (std::size_t row = 0; row < gate.rows.size(); ++row) {
    if (row != gate.slowed_row && flags(gate, row)) return true;
  }
  return false;
}

// Whether the slowed row is flagged.
bool is_found(const GateOutcome& gate) {
  return flags(gate, gate.slowed_row.value());
}

// Returns a test for this verdict: of the gate, or of its slowed row where it has one.
OfGate says(Verdict verdict) {
  return [verdict](const GateOutcome& gate) {
    return (gate.slowed_row ? gate.rows[*gate.slowed_row] : gate.verdict) == verdict;
  };
}

json interval_json(const std::optional<stats::Interval>& interval) {
  return interval ? json{interval->lo, interval->hi} : json(nullptr);
}

json rate_json(const Shares& shares) {
  if (shares.empty()) return {{"rate", nullptr}, {"ci95", nullptr}, {"shares", json::array()}};
  return {{"rate", stats::mean(shares)},
          {"ci95", interval_json(stats::share_interval(shares, kLevel))},
          {"shares", shares}};
}

// A list, since older files have others there beside the gate.
json flagged_json(const Replay& replay, const OfGate& holds) {
  return json::array({{{"by", "gate"}, {"gates", rate_json(shares_of(replay, holds))}}});
}

// By look: the share of gates that had found the slowed row by then, before its confirmation.
json found_json(const Replay& replay, const std::vector<Look>& looks) {
  json found = json::array();
  for (const Look& look : looks) {
    const Shares shares = shares_of(replay, [&](const GateOutcome& gate) {
      const std::size_t row = gate.slowed_row.value();
      return flags(gate, row) && gate.turns[row] <= look.turns;
    });
    found.push_back({{"turns", look.turns}, {"gates", rate_json(shares)}});
  }
  return found;
}

json to_json(const Replay& replay, const std::vector<Look>& looks) {
  json verdicts = json::object();
  for (const Verdict verdict : kVerdicts) {
    verdicts[to_string(verdict)] = rate_json(shares_of(replay, says(verdict)));
  }
  const bool is_relabelled = replay.composition == Composition::Relabelled;
  return {{"extra_work", replay.extra_work},
          {"gates_are", is_relabelled ? "relabelled" : "one_row_slowed"},
          {"starts", replay.starts},
          {"gates", replay.gates.size()},
          {"outcomes_of_a_gate", replay.gates.empty() ? 0 : replay.gates.front().size()},
          {"false_alarms", flagged_json(replay, is_false_alarm)},
          {"found", is_relabelled ? json(nullptr) : flagged_json(replay, is_found)},
          {"found_within", is_relabelled ? json(nullptr) : found_json(replay, looks)},
          {"verdicts", verdicts}};
}

json to_json(const ControlShifts& control) {
  json out = {{"starts", control.starts}};
  for (const auto& [measure, name] : {std::pair{Measure::Low, "low"}, {Measure::Mean, "mean"}}) {
    const ControlShift& shift = control.measures[measure];
    out[name] = {{"shift", shift.value}, {"ci95", interval_json(shift.ci95)}};
  }
  return out;
}

// "1.7 % [0.0, 9.1]"
std::string percent(const Shares& shares) {
  const stats::Interval ci95 = stats::share_interval(shares, kLevel);
  return fmt::format("{:.1f} % [{:.1f}, {:.1f}]", 100 * stats::mean(shares), 100 * ci95.lo,
                     100 * ci95.hi);
}

// Returns the table of the replays of that composition; "" where none has a gate.
std::string table(const ErrorRates& rates, Composition composition) {
  const bool is_relabelled = composition == Composition::Relabelled;
  std::vector<text::TextTable::Column> columns = {
      {"extra work"}, {"gates"}, {is_relabelled ? "labellings" : "slowed rows"}, {"gate"}};
  for (const Verdict verdict : kVerdicts) columns.push_back({to_string(verdict)});
  if (!is_relabelled) columns.push_back({"other rows flagged"});
  text::TextTable text(columns);
  bool has_gates = false;
  for (const Replay& replay : rates.replays) {
    if (replay.gates.empty() || replay.composition != composition) continue;
    has_gates = true;
    std::vector<std::string> cells = {fmt::format("{:g} %", 100 * replay.extra_work),
                                      fmt::format("{}", replay.gates.size()),
                                      fmt::format("{}", replay.gates.front().size())};
    cells.push_back(percent(shares_of(replay, is_relabelled ? is_false_alarm : is_found)));
    for (const Verdict verdict : kVerdicts) {
      cells.push_back(percent(shares_of(replay, says(verdict))));
    }
    if (!is_relabelled) cells.push_back(percent(shares_of(replay, is_false_alarm)));
    text.add_row(cells);
  }
  return has_gates ? text.to_markdown() : "";
}

// "low quantile 0.02 % [-0.05, 0.09], half-width 0.07 %"
std::string words(const char* measure, const ControlShift& shift) {
  std::string text = fmt::format("{} {:.2f} %", measure, 100 * shift.value);
  if (!shift.ci95) return text;
  return text + fmt::format(" [{:.2f}, {:.2f}], half-width {:.2f} %", 100 * shift.ci95->lo,
                            100 * shift.ci95->hi, 50 * (shift.ci95->hi - shift.ci95->lo));
}

std::string last_name(const std::string& folder) {
  const std::filesystem::path path(folder);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Adds, for each start of a family, the mean over rows of the control's shift.
void add_start_means(const TurnFamily& family, const Settings& settings,
                     ByMeasure<std::vector<double>>& means) {
  std::vector<RowDifferences> rows;
  for (const RowTurns& row : family.rows) {
    rows.push_back(differences(row.turns, settings.low_quantile));
  }
  for (const Measure measure : kMeasures) {
    std::vector<std::vector<double>> shifts;
    for (const RowDifferences& row : rows) {
      shifts.push_back(shifts_of(row[measure]).control);
    }
    for (std::size_t start = 0; !shifts.empty() && start < shifts.front().size(); ++start) {
      std::vector<double> of_start;
      for (const auto& row : shifts) {
        if (start < row.size()) of_start.push_back(row[start]);
      }
      means[measure].push_back(stats::mean(of_start));
    }
  }
}

ControlShift shift_of(const std::vector<double>& means) {
  ControlShift shift;
  if (means.empty()) return shift;
  const double centre = stats::mean(means);
  shift.value = std::expm1(centre);
  if (means.size() < kFewestStarts) return shift;
  const auto n = static_cast<double>(means.size());
  const double half = stats::student_t(n - 1, kLevel) * *stats::summarize(means)->sd / std::sqrt(n);
  shift.ci95 = stats::Interval{std::expm1(centre - half), std::expm1(centre + half)};
  return shift;
}

}  // namespace

ControlShifts control_shifts(const std::vector<StoredFamily>& families, const Settings& settings) {
  ByMeasure<std::vector<double>> means;
  for (const StoredFamily& stored : families) add_start_means(stored.turns, settings, means);
  ControlShifts shifts;
  shifts.starts = means[Measure::Low].size();
  for (const Measure measure : kMeasures) shifts.measures[measure] = shift_of(means[measure]);
  return shifts;
}

json to_json(const ErrorRates& rates) {
  json replays = json::array();
  for (const Replay& replay : rates.replays) {
    replays.push_back(to_json(replay, rates.settings.looks));
  }
  return {{"schema", kErrorRatesSchema},       {"name", rates.name},
          {"context", rates.context},          {"settings", to_json(rates.settings)},
          {"control", to_json(rates.control)}, {"replays", replays}};
}

std::string error_rate_tables(const ErrorRates& rates) {
  std::string text;
  const auto add = [&](const char* title, Composition composition) {
    const std::string lines = table(rates, composition);
    if (!lines.empty()) text += fmt::format("{}:\n\n{}\n", title, lines);
  };
  add("Gates without extra work, and how often any row of them is flagged",
      Composition::Relabelled);
  add("Gates with extra work in one row, and how often it is found; the verdict on that row",
      Composition::OneRowSlowed);
  return text + fmt::format("The control is slower than the baseline, over {}, by: {}; {}.\n",
                            text::counted(rates.control.starts, "start", "starts"),
                            words("low quantile", rates.control.measures[Measure::Low]),
                            words("mean step", rates.control.measures[Measure::Mean]));
}

ErrorRates replay_folder(const std::string& folder, const Settings& all, const ReplayDepth& depth) {
  const std::vector<StoredFamily> families = read_families(folder);
  if (families.empty()) {
    throw ConfigError(
        fmt::format("{}: has no stored turns, expected files named *{}", folder, kTurnsSuffix));
  }
  const Settings settings = fitted_to(families, all);
  ErrorRates rates{last_name(folder),
                   families.front().turns.context,
                   settings,
                   control_shifts(families, settings),
                   {}};
  const std::vector<GatePool> pools = gate_pools(families, settings);
  const GatePool none;
  const bool has_equal = pools.front().extra_work == 0;
  const GatePool& equal = has_equal ? pools.front() : none;
  for (const GatePool& pool : pools) {
    rates.replays.push_back(pool.extra_work == 0
                                ? replay_relabelled(pool, settings, depth)
                                : replay_one_row_slowed(pool, equal, settings, depth));
  }
  return rates;
}

}  // namespace gradsync::gate
