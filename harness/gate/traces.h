// Stored turns of real gates, taken apart into fresh starts from which gates are composed anew.
//
// Layout and placement are drawn once per start, so a start is the unit that is independent of the
// others; turns inside one are not. A gate composed of starts that were measured with the same
// extra work is a gate that could have happened: the rows of a start stay together, the turns keep
// their order, and no start comes twice in one gate.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/gate/settings.h"
#include "harness/gate/turns.h"

namespace gradsync::gate {

inline constexpr const char* kTurnsSuffix = ".turns.json";  // of files with stored turns

// The turns of one gate that was measured, and where they are stored.
struct StoredFamily {
  std::string file;
  TurnFamily turns;
};

// One fresh start of the arms.
struct StoredStart {
  std::vector<std::vector<Turn>> turns;  // by row, in the order they ran
};

// All starts with the same extra work, of the same rows and blocks.
struct StartPool {
  TurnFamily frame;  // extra work, blocks, rows and context of its gates, without turns
  std::vector<StoredStart> starts;
};

// Rounds every step to five significant digits, a tenth of a per mille at most: stored turns are so
// rounded, which halves their files.
void round_for_storage(TurnFamily& family);

// Returns the families in the files of `folder` that end in kTurnsSuffix, in the order of names.
// Errors: ConfigError where the folder or a file cannot be read, or a file holds no family.
std::vector<StoredFamily> read_families(const std::string& folder);

// Returns the starts of all families: a pool for each extra work, in increasing order; inside of it
// as given.   Errors: ConfigError with the file where rows or blocks differ from the first
// family's, or where a start has not settings.start_turns of every row, because one was closed.
std::vector<StartPool> start_pools(const std::vector<StoredFamily>& families,
                                   const Settings& settings);

// Returns how many starts one gate takes: those of its looks, then those of a confirmation.
// Errors: InternalError where either takes a part of a start.
std::size_t starts_per_gate(const Settings& settings);

// Returns the gate made of these starts of the pool, in this order, numbered from 0 on.
// Errors: InternalError for a start that the pool has not.
TurnFamily composed_of(const StartPool& pool, const std::vector<std::size_t>& starts);

}  // namespace gradsync::gate
