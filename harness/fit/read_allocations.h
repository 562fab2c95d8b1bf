// Reads what the recorder (recorder/allocation_file.h) left of a job's processes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/fit/recorder/allocation_file.h"

namespace gradsync::fit {

// Where a block was asked for.
struct Site {
  std::uint64_t module = 0;  // the innermost one that ran; 0: none did
  int line = 0;
  std::string function = {}, file = {};
};

struct ModuleName {
  std::string kind;  // its class
  std::string name;  // as its model calls it: "layers.3.mlp"; "": it is the model
};

// One process's.
struct Allocations {
  std::int64_t pid = 0;
  std::string path;  // of the records
  std::vector<AllocationRecord> records;
  std::int64_t lost = 0;  // records that found no room
  std::map<std::uint32_t, Site> sites;
  std::map<std::uint64_t, ModuleName> modules;
  std::string out_of_memory;  // torch's own message; "": it was not out, or somebody caught that
};

// Returns those in `folder`, by process id.
// Errors: ConfigError where a file is none of the recorder's.
std::vector<Allocations> read_allocations(const std::string& folder);

}  // namespace gradsync::fit
