// Says what is wrong with a command line that cannot be parsed, and what to type next.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/manual/command_page.h"

namespace gradsync::cli {

// Returns one sentence, without a full stop. `program`: the page of the whole program; `words`: the
// command line behind "gradsync", until "--"; `complaint`: the parser's own words, for all other
// errors than those found here: a command or an option that does not exist, a command that is
// missing, and a training command without "--".
std::string wrong_call(const CommandPage& program, const std::vector<std::string>& words,
                       const std::string& complaint);

}  // namespace gradsync::cli
