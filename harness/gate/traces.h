// Stored turns of real gates, taken apart into gates that are decided on anew.
//
// Layout and placement are drawn once per start, so a start is the unit that is independent of the
// others; turns inside one are not. A gate takes starts of one file that followed each other, in
// their order, and no start is in two gates.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/gate/settings.h"
#include "harness/gate/turns.h"

namespace gradsync::gate {

// The suffix of files with stored turns, packed by gzip. Files that are not packed end before
// ".gz".
inline constexpr const char* kTurnsSuffix = ".turns.json.gz";

// The turns of one gate that was measured, and where they are stored.
struct StoredFamily {
  std::string file;
  TurnFamily turns;
};

// The gates that were measured with one extra work, all of the same rows and blocks.
struct GatePool {
  double extra_work = 0;
  std::vector<TurnFamily> gates;  // each with the starts of one gate, numbered from 0
};

// Rounds every step to five significant digits, a tenth of a per mille at most: stored turns are so
// rounded, which halves their files.
void round_for_storage(TurnFamily& family);

// Returns the families in the files of `folder` that hold stored turns, in the order of names.
// Errors: ConfigError where the folder or a file cannot be read, or a file holds no family.
std::vector<StoredFamily> read_families(const std::string& folder);

// Returns how many starts one gate takes: those of its looks, then those of a confirmation.
// Errors: InternalError where either takes a part of a start.
std::size_t starts_per_gate(const Settings& settings);

// Returns the settings as far as the stored starts go: with starts of their length, and with the
// looks and the confirmation that the shortest file has starts for. So a file with fewer starts
// than a whole gate may take is a gate that its time budget ended.
Settings fitted_to(const std::vector<StoredFamily>& families, const Settings& settings);

// Refuses a family whose starts cannot stand beside those of `first`: with other rows or blocks.
// Errors: ConfigError with the file and the field.
void check_alike(const StoredFamily& stored, const TurnFamily& first);

// Returns the gates of all families: a pool for each extra work, in increasing order, also one
// without gates; inside of it as given. The starts of a file that do not fill a gate are left out.
// Errors: as check_alike; ConfigError where a start has not settings.start_turns of every row,
// because one was closed.
std::vector<GatePool> gate_pools(const std::vector<StoredFamily>& families,
                                 const Settings& settings);

}  // namespace gradsync::gate
