// Completion of gradsync's command line in bash, made from the parser's own pages.
//
// Commands, options and their choices are written into the script. Names of plans and topologies
// are files, so the script asks `gradsync list` for them when they are wanted; those of models and
// strategies are known now. What is behind "--" is another command, and completed as such.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "benchmarks/manual/command_page.h"

namespace gradsync::cli {

// What completes a value, by what an option takes: "PLAN". Where `words` is empty, `asks` is what
// `gradsync list` is asked for.
struct KnownNames {
  std::string asks;
  std::vector<std::string> words;
};

using NamesByValue = std::map<std::string, KnownNames>;

// Returns the script that bash sources.
std::string bash_completion(const CommandPage& program, const NamesByValue& names);

}  // namespace gradsync::cli
