// Where plans, gates and topologies are that come with the program.
#pragma once

#include <string>

#include "harness/base/program_files.h"

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

}  // namespace gradsync::session
