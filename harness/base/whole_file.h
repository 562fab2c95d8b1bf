// A file's whole content, for readers that then check it.
//
// A file may be packed by gzip, as large data in a source tree is: stored turns take a fifth of the
// bytes so, and `zcat FILE` shows them. Who reads it need not know.
#pragma once

#include <string>

namespace gradsync {

// Returns the bytes of the file at `path`; where it is packed by gzip, what is packed in it.
// Errors: ConfigError naming the file and why it cannot be read.
std::string whole_file(const std::string& path);

// Returns `bytes` as the content of a file packed by gzip, the same on every day.
std::string packed(const std::string& bytes);

}  // namespace gradsync
