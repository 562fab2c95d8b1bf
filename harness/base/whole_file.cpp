#include "harness/base/whole_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "harness/base/errors.h"

namespace gradsync {

std::string whole_file(const std::string& path) {
  const auto refuse = [&path] {
    throw ConfigError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse();
  std::string text;
  try {
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  } catch (const std::ios_base::failure&) {  // a directory, a failing disk
    refuse();
  }
  return text;
}

}  // namespace gradsync
