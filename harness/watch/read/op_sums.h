// Collectives summed by operation, of which the sizes may not be known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

struct OpSum {
  std::int64_t count = 0;
  std::optional<std::int64_t> bytes = 0;  // absent: the size of one of them is not known
  bool operator==(const OpSum&) const = default;
  bool operator<(const OpSum& other) const {
    return std::tie(count, bytes) < std::tie(other.count, other.bytes);
  }
};

// By operation: "all_reduce", "broadcast", ...; operations that were not used are absent.
using OpSums = std::map<std::string, OpSum>;

void add(OpSums& sums, const std::string& op, const OpSum& more);
void add(OpSums& sums, const Event& collective);
void add(OpSums& sums, const OpSums& more);

// Returns `sums` without `part`, which must be contained in it.
OpSums without(const OpSums& sums, const OpSums& part);

// Returns `count` times `sums`; nothing where that is 0 times.
OpSums times(int count, const OpSums& sums);

// Returns the sum of one operation; of one that was not used 0.
OpSum sum_of(const OpSums& sums, const std::string& op);

std::int64_t total_count(const OpSums& sums);
std::optional<std::int64_t> total_bytes(const OpSums& sums);  // absent where one is not known

std::string bytes_text(const std::optional<std::int64_t>& bytes);  // "1.5 KiB"; "-" where absent

// Adds two cells to a table's row: count and bytes; an operation that is not among `sums` was not
// used.
void add_cells(std::vector<std::string>& row, const OpSums& sums, const std::string& op);

}  // namespace gradsync::watch
