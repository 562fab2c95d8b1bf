// Completion of gradsync's command line in bash, made from the parser's own pages.
//
// Commands, options and their choices are written into the script. Plans and topologies are files,
// so the script asks `gradsync list` for their names when it needs them; the names of models and
// strategies are known now. The words behind "--" are another command, and are completed as such.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "benchmarks/manual/command_page.h"

namespace gradsync::cli {

// What completes a value such as "PLAN": `words`, or if there are none, the output of `gradsync
// list` with the argument `asks`.
struct KnownNames {
  std::string asks;
  std::vector<std::string> words;
};

using NamesByValue = std::map<std::string, KnownNames>;

// Returns the script that bash sources.
std::string bash_completion(const CommandPage& program, const NamesByValue& names);

}  // namespace gradsync::cli
