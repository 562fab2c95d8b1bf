#include "harness/gate/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::gate {
namespace {

std::vector<std::string> turn_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().ends_with(kTurnsSuffix)) {
      files.push_back(entry->path().string());
    }
  }
  if (error) throw ConfigError(fmt::format("{}: cannot be read: {}", folder, error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

TurnFamily without_turns(TurnFamily family) {
  for (RowTurns& row : family.rows) row.turns.clear();
  return family;
}

// Refuses a family whose starts cannot stand beside those of `frame`.
void check_alike(const StoredFamily& stored, const TurnFamily& frame) {
  const auto check_number = [&](const char* field, int got, int expected) {
    if (got != expected) {
      throw ConfigError(stored.file, field, fmt::format("{}", got),
                        fmt::format("{}, as in the first file", expected));
    }
  };
  const TurnFamily& turns = stored.turns;
  check_number("settings.passes", turns.passes, frame.passes);
  check_number("settings.settle_steps", turns.settle_steps, frame.settle_steps);
  const auto same_row = [](const RowTurns& a, const RowTurns& b) {
    return a.part == b.part && a.cell == b.cell;
  };
  if (!std::equal(turns.rows.begin(), turns.rows.end(), frame.rows.begin(), frame.rows.end(),
                  same_row)) {
    throw ConfigError(stored.file, "rows", "other rows", "the rows of the first file");
  }
}

// The starts of one family, each with `turns` turns of every row.
std::vector<StoredStart> starts_of(const StoredFamily& stored, std::size_t turns) {
  std::vector<StoredStart> starts;
  const std::vector<RowTurns>& rows = stored.turns.rows;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (const Turn& turn : rows[row].turns) {
      const auto start = static_cast<std::size_t>(turn.start);
      if (start >= starts.size()) starts.resize(start + 1, {{rows.size(), std::vector<Turn>()}});
      starts[start].turns[row].push_back(turn);
    }
  }
  for (std::size_t start = 0; start < starts.size(); ++start) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::size_t got = starts[start].turns[row].size();
      if (got == turns) continue;
      throw ConfigError(stored.file, fmt::format("rows[{}].turns", row),
                        fmt::format("{} turns of start {}", got, start),
                        fmt::format("{}, since a gate is composed of whole starts", turns));
    }
  }
  return starts;
}

}  // namespace

void round_for_storage(TurnFamily& family) {
  for (RowTurns& row : family.rows) {
    for (Turn& turn : row.turns) {
      for (std::vector<double>& steps : turn.step_s) {
        for (double& step : steps) step = std::stod(fmt::format("{:.4e}", step));
      }
    }
  }
}

std::vector<StoredFamily> read_families(const std::string& folder) {
  std::vector<StoredFamily> families;
  for (const std::string& file : turn_files(folder)) {
    families.push_back({file, turn_family_from_json(read_json_file(file), file)});
  }
  return families;
}

std::vector<StartPool> start_pools(const std::vector<StoredFamily>& families,
                                   const Settings& settings) {
  std::vector<StartPool> pools;
  for (const StoredFamily& stored : families) {
    check_alike(stored, families.front().turns);
    auto pool = std::find_if(pools.begin(), pools.end(), [&](const StartPool& other) {
      return other.frame.extra_work == stored.turns.extra_work;
    });
    if (pool == pools.end()) {
      pool = pools.insert(pools.end(), {without_turns(stored.turns), {}});
    }
    const auto turns = static_cast<std::size_t>(settings.start_turns);
    for (StoredStart& start : starts_of(stored, turns)) pool->starts.push_back(std::move(start));
  }
  std::sort(pools.begin(), pools.end(), [](const StartPool& a, const StartPool& b) {
    return a.frame.extra_work < b.frame.extra_work;
  });
  return pools;
}

std::size_t starts_per_gate(const Settings& settings) {
  const int looked_at = settings.looks.back().turns;
  GRADSYNC_CHECK(looked_at % settings.start_turns, ==, 0);
  GRADSYNC_CHECK(settings.confirmation_turns % settings.start_turns, ==, 0);
  const int starts = (looked_at + settings.confirmation_turns) / settings.start_turns;
  return static_cast<std::size_t>(starts);
}

TurnFamily composed_of(const StartPool& pool, const std::vector<std::size_t>& starts) {
  TurnFamily family = pool.frame;
  for (std::size_t number = 0; number < starts.size(); ++number) {
    GRADSYNC_CHECK(starts[number], <, pool.starts.size());
    const StoredStart& start = pool.starts[starts[number]];
    for (std::size_t row = 0; row < family.rows.size(); ++row) {
      for (Turn turn : start.turns[row]) {
        turn.start = static_cast<int>(number);
        family.rows[row].turns.push_back(std::move(turn));
      }
    }
  }
  return family;
}

}  // namespace gradsync::gate
