// The tables that the guide published, as data (results/reference/), which stand beside ours.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::report {

// Seconds per step, by the guide's row ("multi_node") and by strategy.
template <typename Values>
using ByRowAndStrategy = std::map<std::string, std::map<std::string, Values>>;

struct PublishedSlowdowns {
  ByRowAndStrategy<std::vector<double>> published;  // mean and deviation, as printed
  ByRowAndStrategy<std::vector<double>> raw_runs;   // what they were made from
};

// One row of the table of memory.
struct PublishedFit {
  bool no_sync = false;  // false: disabled, sync_each_batch in its place
  int accumulation_steps = 0;
  std::string result;  // "69G", "OOM"
};

struct MemorySetup {
  std::string gpus;
  std::vector<std::string> unpublished;  // what the guide does not say
};

struct PublishedMemory {
  MemorySetup setup;
  std::vector<PublishedFit> published;
};

// Unset: this checkout lacks the file.
struct References {
  std::optional<PublishedSlowdowns> slowdown_table;
  std::optional<PublishedMemory> memory_table;
};

// Returns the tables in `directory`. Errors: ConfigError for a file that is no such table.
References read_references(const std::string& directory);

}  // namespace gradsync::report
