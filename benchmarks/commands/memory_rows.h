// Prints what `gradsync predict memory` found for each cell, as a table and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/known.h"
#include "harness/plan/plan.h"

namespace gradsync::cli {

// A step with more micro-batches than this holds no more memory.
inline constexpr int kMostMicroBatches = 64;

struct MemoryRow {
  plan::Cell cell;
  int world_size = 0;
  std::optional<std::string> device;       // unset: the CPU
  std::optional<std::int64_t> peak_bytes;  // nothing: `unknown_because` says why
  std::optional<std::map<std::string, std::int64_t>> peak_by_category;
  Known<std::int64_t> peak_reserved_bytes;
  std::optional<std::int64_t> host_peak_bytes;  // unset: nothing is offloaded
  std::optional<std::string> place;
  std::string unknown_because;
  std::optional<std::int64_t> budget_bytes;  // these where one was asked for
  std::optional<bool> fits;
  std::optional<int> largest_accumulation_steps;
};

// Prints a table with a row for each cell. Under a single row, a second table shows what its peak
// consists of.
void print_memory(const std::vector<MemoryRow>& rows);

// Returns the same as a list of objects.
std::string memory_json(const std::vector<MemoryRow>& rows);

}  // namespace gradsync::cli
