// Pages held to the letter against files that a person has read.
#pragma once

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace gradsync::test {

// Expects `text` to be what the file at `path` holds. GRADSYNC_ACCEPT_GOLDEN=1 writes the file
// first: read the difference before you commit it.
inline void expect_golden(const std::string& path, const std::string& text) {
  if (std::getenv("GRADSYNC_ACCEPT_GOLDEN")) std::ofstream(path) << text;
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, expected.str()) << "expected: " << path;
}

inline std::vector<std::string> lines_of(std::istream&& in) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// Expects `said`, line by line, to be what the room's page of phrases has under the name of the
// running test, so that a sentence stands in that page alone. A test that asks twice has two
// entries. GRADSYNC_ACCEPT_GOLDEN=1 writes the entry first.
inline void expect_phrases(const std::string& room, const std::vector<std::string>& said) {
  const std::string path = path_of("source") + "/tests/harness/" + room + "/golden/phrases.txt";
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string("## ") + test->test_suite_name() + "." + test->name();
  static std::map<std::string, int> calls;
  if (const int call = ++calls[name]; call > 1) name += ", " + std::to_string(call);
  std::map<std::string, std::vector<std::string>> page;
  std::vector<std::string>* entry = nullptr;
  for (const std::string& line : lines_of(std::ifstream(path))) {
    if (line.starts_with("## ")) {
      entry = &page[line];
    } else if (entry != nullptr) {
      entry->push_back(line);
    }
  }
  std::vector<std::string> lines;
  for (const std::string& text : said) {
    for (const std::string& line : lines_of(std::istringstream(text))) lines.push_back(line);
  }
  if (std::getenv("GRADSYNC_ACCEPT_GOLDEN")) {
    page[name] = lines;
    std::ofstream out(path);
    for (const auto& [title, kept] : page) {
      out << title << "\n";
      for (const std::string& line : kept) out << line << "\n";
    }
  }
  EXPECT_EQ(page[name], lines) << "expected: " << path;
}

}  // namespace gradsync::test
