// Error rates as tables and as data: how often the gate flags, by extra work.
//
// Without extra work a gate alarms where any of its rows is flagged, also where its own verdict is
// "unfit" because of another row. With extra work in one row, power is the share of gates in which
// that row is found.
//
// Every gate gives a share, of its labellings or of its choices of a slowed row (replay.h), and a
// rate is the mean share over gates. Its 95 % interval (stats::share_interval) knows of gates and
// of nothing else: a thousand labellings of one gate say much about that gate and little about the
// next one, which runs at another time. Where every share is 0 the upper end is 1 - 0.05^(1 / n) of
// n gates, 9.5 % at 30, and 299 gates show that a rate is at most 1 %. Student's t over the shares
// would say 0 there, and too little wherever most shares are 0 and few are not.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/gate/replay.h"
#include "harness/gate/row_decision.h"
#include "harness/gate/settings.h"
#include "harness/stats/interval.h"

namespace gradsync::gate {

inline constexpr const char* kErrorRatesSchema = "gradsync.gate_error_rates/2";
inline constexpr const char* kErrorRatesFile = "error_rates.json";  // beside the stored turns

// By how much the control, the same build as the baseline, was slower, as a share: the mean over
// starts of each start's mean over its rows. Draws of places and processes (StartDraw) make it 0 up
// to chance; an interval without 0 says that something favours one of them.
struct ControlShift {
  double value = 0;
  std::optional<stats::Interval> ci95;  // Student's t over starts; absent with fewer than three
};

struct ControlShifts {
  std::size_t starts = 0;
  ByMeasure<ControlShift> measures;
};

// Returns the shifts over all starts of these families.
ControlShifts control_shifts(const std::vector<StoredFamily>& families, const Settings& settings);

struct ErrorRates {
  std::string name;        // of what was replayed: a folder of stored turns, a self-test
  nlohmann::json context;  // on what the turns were measured
  Settings settings;
  ControlShifts control;
  std::vector<Replay> replays;
};

// Returns the rates as one JSON object, schema kErrorRatesSchema (results/schema/), with the share
// of every gate. A rate without gates is null.
nlohmann::json to_json(const ErrorRates& rates);

// Returns Markdown: a table of gates without extra work, one of gates with one slowed row, each
// with a line for each replay that has a gate, and a line about the control.
std::string error_rate_tables(const ErrorRates& rates);

// Returns the rates of the stored turns in `folder`, named after it: for each extra work as many
// gates as its starts allow, by the settings as far as they go (fitted_to).
// Errors: ConfigError as read_families and gate_pools, or where the folder has no stored turns.
ErrorRates replay_folder(const std::string& folder, const Settings& settings,
                         const ReplayDepth& depth = {});

}  // namespace gradsync::gate
