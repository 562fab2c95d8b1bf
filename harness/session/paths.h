// Where plans, gates and topologies are that come with the program, and the guide's tables.
#pragma once

#include <string>

#include "harness/base/program_files.h"
#include "harness/report/published.h"

namespace gradsync::session {

inline std::string plans_directory() {
  return data_file("benchmarks/plans");
}
inline std::string gates_directory() {
  return data_file("benchmarks/gates");
}
inline std::string topologies_directory() {
  return data_file("benchmarks/topologies");
}

// Returns the tables that the guide published, for the pages that print ours beside them. Errors:
// ConfigError where one is no such table.
inline report::References published_tables() {
  return report::read_references(data_file("results/reference"));
}

}  // namespace gradsync::session
