// What this binary was built from; stamped into every result.
#pragma once

#include <string>

namespace gradsync {

struct BuildInfo {
  std::string version;        // "0.1.0", from CMakeLists.txt
  std::string commit;         // short hash, "-dirty" where the tree was changed, or "unknown"
  std::string build_type;     // "Release"
  std::string sanitize;       // "" or as in -fsanitize=
  std::string compiler;       // "GNU 12.2.0"
  std::string torch_version;  // LibTorch's headers
  bool timing_valid;          // false for debug and sanitizer builds
  std::string source_dir;     // the checkout
};

const BuildInfo& build_info();

}  // namespace gradsync
