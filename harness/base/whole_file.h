// A file's whole content, for readers that then check it.
#pragma once

#include <string>

namespace gradsync {

// Returns the bytes of the file at `path`.   Errors: ConfigError naming the file and why it cannot
// be read.
std::string whole_file(const std::string& path);

}  // namespace gradsync
