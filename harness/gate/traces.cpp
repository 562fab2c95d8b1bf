#include "harness/gate/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::gate {
namespace {

bool holds_turns(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(kTurnsSuffix) || (name + ".gz").ends_with(kTurnsSuffix);
}

std::vector<std::string> turn_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (holds_turns(entry->path())) files.push_back(entry->path().string());
  }
  if (error) throw ConfigError(fmt::format("{}: cannot be read: {}", folder, error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

// To five significant digits.
double rounded(double value) {
  return std::stod(fmt::format("{:.4e}", value));
}

// Refuses a family of which a start lacks turns of a row.
void check_whole_starts(const StoredFamily& stored, std::size_t turns) {
  const std::vector<RowTurns>& rows = stored.turns.rows;
  std::map<int, std::size_t> none;  // of each start that any row has
  for (const RowTurns& row : rows) {
    for (const Turn& turn : row.turns) none[turn.start] = 0;
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::map<int, std::size_t> got = none;
    for (const Turn& turn : rows[row].turns) ++got[turn.start];
    for (const auto& [start, count] : got) {
      if (count == turns) continue;
      throw ConfigError(stored.file, fmt::format("rows[{}].turns", row),
                        fmt::format("{} turns of start {}", count, start),
                        fmt::format("{}, since a gate is composed of whole starts", turns));
    }
  }
}

// The gate of `count` starts from the `first` on.
TurnFamily gate_of(const TurnFamily& family, int first, int count) {
  TurnFamily gate = family;
  gate.starts.clear();
  for (int start = first; start < first + count; ++start) {
    const auto index = static_cast<std::size_t>(start);
    gate.starts.push_back(index < family.starts.size() ? family.starts[index] : StartDraw{});
  }
  for (RowTurns& row : gate.rows) {
    std::erase_if(row.turns, [&](const Turn& turn) {
      return turn.start < first || turn.start >= first + count;
    });
    for (Turn& turn : row.turns) turn.start -= first;
  }
  return gate;
}

}  // namespace

Settings fitted_to(const std::vector<StoredFamily>& families, const Settings& settings) {
  Settings fitted = settings;
  auto starts = static_cast<int>(starts_per_gate(settings));
  for (const StoredFamily& stored : families) {
    const auto in_file = static_cast<int>(start_count(stored.turns));
    if (in_file == 0) continue;
    const std::vector<Turn>& turns = stored.turns.rows.front().turns;
    const auto of_first = std::count_if(turns.begin(), turns.end(), [&](const Turn& turn) {
      return turn.start == turns.front().start;
    });
    fitted = with_start_turns(settings, static_cast<int>(of_first));
    starts = std::min(starts, in_file);
  }
  return within_starts(fitted, starts);
}

void check_alike(const StoredFamily& stored, const TurnFamily& first) {
  const auto check_number = [&](const char* field, int got, int expected) {
    if (got != expected) {
      throw ConfigError(stored.file, field, fmt::format("{}", got),
                        fmt::format("{}, as in the other turns", expected));
    }
  };
  const TurnFamily& turns = stored.turns;
  check_number("settings.passes", turns.passes, first.passes);
  check_number("settings.settle_steps", turns.settle_steps, first.settle_steps);
  const auto same_row = [](const RowTurns& a, const RowTurns& b) {
    return a.part == b.part && a.cell == b.cell;
  };
  if (!std::equal(turns.rows.begin(), turns.rows.end(), first.rows.begin(), first.rows.end(),
                  same_row)) {
    throw ConfigError(stored.file, "rows", "other rows", "the rows of the other turns");
  }
}

void round_for_storage(TurnFamily& family) {
  for (RowTurns& row : family.rows) {
    for (Turn& turn : row.turns) {
      for (std::vector<double>& steps : turn.step_s) {
        for (double& step : steps) step = rounded(step);
      }
      for (double& elapsed_s : turn.elapsed_s) elapsed_s = rounded(elapsed_s);
      for (auto& [phase, by_arm] : turn.phase_s) {
        for (double& phase_s : by_arm) phase_s = rounded(phase_s);
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

std::size_t starts_per_gate(const Settings& settings) {
  const int looked_at = settings.looks.back().turns;
  GRADSYNC_CHECK(looked_at % settings.start_turns, ==, 0);
  GRADSYNC_CHECK(settings.confirmation_turns % settings.start_turns, ==, 0);
  const int starts = (looked_at + settings.confirmation_turns) / settings.start_turns;
  return static_cast<std::size_t>(starts);
}

std::vector<GatePool> gate_pools(const std::vector<StoredFamily>& families,
                                 const Settings& settings) {
  std::map<double, GatePool> pools;
  const auto starts = static_cast<int>(starts_per_gate(settings));
  for (const StoredFamily& stored : families) {
    check_alike(stored, families.front().turns);
    check_whole_starts(stored, static_cast<std::size_t>(settings.start_turns));
    GatePool& pool = pools[stored.turns.extra_work];
    pool.extra_work = stored.turns.extra_work;
    for (int first = 0; first + starts <= static_cast<int>(start_count(stored.turns));
         first += starts) {
      pool.gates.push_back(gate_of(stored.turns, first, starts));
    }
  }
  std::vector<GatePool> in_order;
  for (auto& [extra_work, pool] : pools) in_order.push_back(std::move(pool));
  return in_order;
}

}  // namespace gradsync::gate
