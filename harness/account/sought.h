// A parameter in a step, put together over the ranks: what was contributed to it, and what was
// read. The equations that this gives are solved together where they add up together, else in
// groups that do.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/account/account.h"
#include "harness/account/records.h"

namespace gradsync::account {

// A contribution: its rank and micro-batch.
struct Column {
  int rank = 0;
  int micro_batch = 0;
  bool is_older = false;
  auto operator<=>(const Column&) const = default;  // NOLINT(modernize-use-nullptr): not written
};

using ParameterKey = std::pair<int, int>;  // optimizer, place in it

// One gradient that one or more ranks read.
struct Sought {
  ParameterKey key;
  std::string name;
  std::string dtype;
  std::int64_t elements = 0;
  std::vector<int> ranks;    // that have the parameter
  std::vector<int> readers;  // of this gradient
  Sketch gradient{};
  Sketch value{};
  std::map<Column, Sketch> columns;  // of all its ranks
  std::map<int, Sketch> shards;      // of the gradient, by rank; empty: it is not sharded
};

// One parameter's records in a step, by rank.
using OfRanks = std::map<int, const ParameterRecord*>;

// Ranks that have the same parameter, in parts.
using Owners = std::vector<std::vector<int>>;

// Returns which ranks have the same parameter, by its value. Call it for the first step: later on,
// the same parameter may have drifted to other values. For shards: all ranks.
Owners owners_of(const OfRanks& records);

// Returns the gradients of the parameter whose weights are sought: one for each set of owners that
// read the same gradient, else one for each gradient. Shards are added up. Nothing where shards are
// missing.
std::vector<Sought> put_together(const OfRanks& records, const Owners& owners);

// Adds to `account` the groups of parameters that the same ranks have and read alike; or why there
// are none. `before`: what was sought in the step before, where that was accounted.
void solve_class(StepAccount& account, const std::vector<const Sought*>& together,
                 const std::map<ParameterKey, Sought>& before);

}  // namespace gradsync::account
