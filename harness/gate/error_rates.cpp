#include "harness/gate/error_rates.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <functional>
#include <optional>

#include "harness/base/errors.h"
#include "harness/gate/habits.h"
#include "harness/gate/traces.h"
#include "harness/report/text_table.h"
#include "harness/stats/error_rates.h"
#include "harness/stats/interval.h"

namespace gradsync::gate {

using nlohmann::json;

namespace {

constexpr std::array kVerdicts = {Verdict::Regression, Verdict::Pass, Verdict::Undecided,
                                  Verdict::Unfit};

// How many of how many.
struct Rate {
  bool is_independent = true;  // each counted is independent of the others
  std::int64_t count = 0;
  std::int64_t of = 0;

  void add(bool happened) {
    ++of;
    count += happened ? 1 : 0;
  }
  std::optional<stats::Interval> ci95() const {
    if (of == 0 || !is_independent) return std::nullopt;
    return stats::rate_interval(count, of);
  }
};

using OfRow = std::function<bool(const GateOutcome&, std::size_t row)>;

bool any_row(const GateOutcome& gate, const OfRow& holds) {
  for (std::size_t row = 0; row < gate.rows.size(); ++row) {
    if (holds(gate, row)) return true;
  }
  return false;
}

Rate rate_of_gates(const Replay& replay, const std::function<bool(const GateOutcome&)>& holds) {
  Rate rate{!replay.reuses_starts};
  for (const GateOutcome& gate : replay.gates) rate.add(holds(gate));
  return rate;
}

Rate rate_of_rows(const Replay& replay, const OfRow& holds) {
  Rate rate{!replay.reuses_starts};
  for (const GateOutcome& gate : replay.gates) {
    for (std::size_t row = 0; row < gate.rows.size(); ++row) rate.add(holds(gate, row));
  }
  return rate;
}

// What is counted: whole gates or rows.
enum class Unit { Gate, Row };

Rate rate_of_verdict(const Replay& replay, Unit unit, Verdict verdict) {
  if (unit == Unit::Gate) {
    return rate_of_gates(replay, [&](const GateOutcome& gate) { return gate.verdict == verdict; });
  }
  return rate_of_rows(
      replay, [&](const GateOutcome& gate, std::size_t row) { return gate.rows[row] == verdict; });
}

// Who flags a row, and whether it does.
struct Flagger {
  std::string name;
  OfRow flags;
};

// The gate itself, then the habits.
std::vector<Flagger> flaggers() {
  std::vector<Flagger> all{{"gate", [](const GateOutcome& gate, std::size_t row) {
                              return gate.rows[row] == Verdict::Regression;
                            }}};
  for (std::size_t i = 0; i < habits().size(); ++i) {
    all.push_back({habits()[i].name, [i](const GateOutcome& gate, std::size_t row) -> bool {
                     return gate.habits[i][row];
                   }});
  }
  return all;
}

Rate rate_flagged(const Replay& replay, Unit unit, const OfRow& flags) {
  if (unit == Unit::Row) return rate_of_rows(replay, flags);
  return rate_of_gates(replay, [&](const GateOutcome& gate) { return any_row(gate, flags); });
}

json to_json(const Rate& rate) {
  json out = {{"count", rate.count}, {"of", rate.of}, {"rate", nullptr}, {"ci95", nullptr}};
  if (rate.of > 0) out["rate"] = static_cast<double>(rate.count) / static_cast<double>(rate.of);
  if (const auto ci95 = rate.ci95()) out["ci95"] = {ci95->lo, ci95->hi};
  return out;
}

json verdicts_json(const Replay& replay, Unit unit) {
  json out = json::object();
  for (const Verdict verdict : kVerdicts) {
    out[to_string(verdict)] = to_json(rate_of_verdict(replay, unit, verdict));
  }
  return out;
}

// By look: the share of rows that the gate had found slower by then, before their confirmation.
json found_json(const Replay& replay, const std::vector<Look>& looks) {
  json found = json::array();
  for (const Look& look : looks) {
    const Rate rate = rate_of_rows(replay, [&](const GateOutcome& gate, std::size_t row) {
      return gate.rows[row] == Verdict::Regression && gate.turns[row] <= look.turns;
    });
    found.push_back({{"turns", look.turns}, {"rows", to_json(rate)}});
  }
  return found;
}

json to_json(const Replay& replay, const std::vector<Look>& looks) {
  json flagged = json::array();
  for (const Flagger& by : flaggers()) {
    flagged.push_back({{"by", by.name},
                       {"gates", to_json(rate_flagged(replay, Unit::Gate, by.flags))},
                       {"rows", to_json(rate_flagged(replay, Unit::Row, by.flags))}});
  }
  return {
      {"extra_work", replay.extra_work},
      {"starts_are", replay.reuses_starts ? "reused" : "independent"},
      {"starts", replay.starts},
      {"flagged", flagged},
      {"found_within", found_json(replay, looks)},
      {"verdicts",
       {{"gates", verdicts_json(replay, Unit::Gate)}, {"rows", verdicts_json(replay, Unit::Row)}}}};
}

// "1.7 % [0.0, 9.1]", "98.4 %"
std::string percent(const Rate& rate) {
  std::string text =
      fmt::format("{:.1f} %", 100 * static_cast<double>(rate.count) / static_cast<double>(rate.of));
  if (const auto ci95 = rate.ci95()) {
    text += fmt::format(" [{:.1f}, {:.1f}]", 100 * ci95->lo, 100 * ci95->hi);
  }
  return text;
}

std::string table(const ErrorRates& rates, Unit unit) {
  const std::array others = {Verdict::Pass, Verdict::Undecided, Verdict::Unfit};
  std::vector<report::TextTable::Column> columns = {
      {"extra work"}, {"starts"}, {unit == Unit::Gate ? "gates" : "rows"}};
  for (const Flagger& by : flaggers()) columns.push_back({by.name});
  for (const Verdict verdict : others) columns.push_back({to_string(verdict)});
  report::TextTable text(columns);
  for (const Replay& replay : rates.replays) {
    if (replay.gates.empty()) continue;
    std::vector<std::string> cells = {
        fmt::format("{:g} %", 100 * replay.extra_work),
        fmt::format("{}{}", replay.starts, replay.reuses_starts ? ", reused" : ""),
        fmt::format("{}", rate_of_verdict(replay, unit, Verdict::Pass).of)};
    for (const Flagger& by : flaggers()) {
      cells.push_back(percent(rate_flagged(replay, unit, by.flags)));
    }
    for (const Verdict verdict : others) {
      cells.push_back(percent(rate_of_verdict(replay, unit, verdict)));
    }
    text.add_row(cells);
  }
  return text.to_markdown();
}

std::string last_name(const std::string& folder) {
  const std::filesystem::path path(folder);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

json to_json(const ErrorRates& rates) {
  json replays = json::array();
  for (const Replay& replay : rates.replays) {
    replays.push_back(to_json(replay, rates.settings.looks));
  }
  return {{"schema", kErrorRatesSchema},
          {"name", rates.name},
          {"context", rates.context},
          {"settings", to_json(rates.settings)},
          {"replays", replays}};
}

std::string error_rate_tables(const ErrorRates& rates) {
  return "Gates that each flags, and the gate's other verdicts:\n\n" + table(rates, Unit::Gate) +
         "\nRows that each flags, and the gate's other verdicts:\n\n" + table(rates, Unit::Row);
}

ErrorRates replay_folder(const std::string& folder, const Settings& settings, const Reuse& reuse) {
  const std::vector<StoredFamily> families = read_families(folder);
  if (families.empty()) {
    throw ConfigError(
        fmt::format("{}: has no stored turns, expected files named *{}", folder, kTurnsSuffix));
  }
  ErrorRates rates{last_name(folder), families.front().turns.context, settings, {}};
  stats::Random random(reuse.seed);
  for (const StartPool& pool : start_pools(families, settings)) {
    rates.replays.push_back(replay_independent(pool, settings));
    rates.replays.push_back(replay_reused(pool, settings, reuse.gates, random));
  }
  return rates;
}

}  // namespace gradsync::gate
