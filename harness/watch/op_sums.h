// Collectives summed by operation, of which the sizes may not be known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/watch/event.h"

namespace gradsync::watch {

struct OpSum {
  std::int64_t count = 0;
  std::optional<std::int64_t> bytes = 0;  // absent: the size of one of them is not known
  bool operator==(const OpSum&) const = default;
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

std::int64_t total_count(const OpSums& sums);
std::optional<std::int64_t> total_bytes(const OpSums& sums);  // absent where one is not known

}  // namespace gradsync::watch
