// Where the program finds the files that come with it.
#pragma once

#include <filesystem>
#include <string>

#include "harness/base/build_info.h"

namespace gradsync::session {

inline std::string source_file(const std::string& path) {
  return build_info().source_dir + "/" + path;
}
// The file of the program that runs.
inline std::filesystem::path this_program() {
  return std::filesystem::read_symlink("/proc/self/exe");
}
inline std::string plans_directory() {
  return source_file("benchmarks/plans");
}
inline std::string gates_directory() {
  return source_file("benchmarks/gates");
}
inline std::string topologies_directory() {
  return source_file("benchmarks/topologies");
}

}  // namespace gradsync::session
