// Pages held to the letter against files that a person has read.
#pragma once

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace gradsync::test {

// Expects `text` to be what the file at `path` holds. GRADSYNC_ACCEPT_GOLDEN=1 writes the file
// first: read the difference before you commit it.
inline void expect_golden(const std::string& path, const std::string& text) {
  if (std::getenv("GRADSYNC_ACCEPT_GOLDEN")) std::ofstream(path) << text;
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, expected.str()) << "expected: " << path;
}

}  // namespace gradsync::test
