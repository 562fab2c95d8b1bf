// Error rates as a table and as data: how often the gate and the habits flag, by extra work.
//
// Whole gates and single rows are counted apart. A whole gate is flagged where any of its rows is:
// without extra work that is the false alarm that alpha bounds, also where the gate's own verdict
// is "unfit" because of another row. Of rows power is stated: the share of slower rows that are
// found. The rows of a gate share its starts, so their interval, which takes rows as independent,
// is somewhat too short; that of whole gates is exact.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/gate/replay.h"
#include "harness/gate/settings.h"

namespace gradsync::gate {

inline constexpr const char* kErrorRatesSchema = "gradsync.gate_error_rates/1";
inline constexpr const char* kErrorRatesFile = "error_rates.json";  // beside the stored turns

struct ErrorRates {
  std::string name;        // of what was replayed: a folder of stored turns, a self-test
  nlohmann::json context;  // on what the turns were measured
  Settings settings;
  std::vector<Replay> replays;
};

// Returns the rates as one JSON object, schema gradsync.gate_error_rates/1 (results/schema/). A
// rate is null where there was nothing to count, its interval also where starts were reused.
nlohmann::json to_json(const ErrorRates& rates);

// Returns two Markdown tables, of whole gates and of rows: a line for each replay that has a gate,
// with 95 % intervals where no start was used twice.
std::string error_rate_tables(const ErrorRates& rates);

// How many gates are drawn for each extra work, and by which seed: more make steadier rates.
struct Reuse {
  int gates = 100;
  std::uint64_t seed = 42;
};

// Returns the rates of the stored turns in `folder`, named after it: for each extra work all
// independent gates that its starts allow, then those that reuse starts.
// Errors: ConfigError as read_families and start_pools, or where the folder has no stored turns.
ErrorRates replay_folder(const std::string& folder, const Settings& settings,
                         const Reuse& reuse = {});

}  // namespace gradsync::gate
