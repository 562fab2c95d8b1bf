// What `gradsync equal` found, as it is printed and as its file has it.
#pragma once

#include <string>
#include <vector>

#include "harness/watch/judge/equal.h"

namespace gradsync::watch {

enum class Equality {
  Equal,
  NotEqual,
  Unknown,  // what was split differs in something else
};

struct ComparedSplit {
  Split split;
  EqualVerdict verdict;
};

struct EqualReport {
  std::vector<std::string> command;  // as it was given, with {ranks} and the like
  Split right;                       // taken for right
  std::vector<ComparedSplit> others;
};

Equality equality_of(const EqualReport& report);

// A table of the splits, the conclusion and its reasons, at most as wide as a terminal.
std::string equal_page(const EqualReport& report);

// Returns JSON of the schema gradsync.equal/1 (results/schema/equal.schema.json), ending with a
// newline.
std::string equal_json(const EqualReport& report);

}  // namespace gradsync::watch
