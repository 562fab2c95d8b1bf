// The older spelling of `gradsync gate`, whose options alone said which question was asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/manual/command_page.h"

namespace gradsync::cli {

// Returns the words behind "gradsync" in today's spelling, or nothing if they are no gate in the
// older spelling: {"gate", "--counts", "FILE"} is {"gate", "counts", "FILE"}. `gate`: the page of
// the command; `words` end before the "--" of a training command.
std::optional<std::vector<std::string>> respelled_gate(const CommandPage& gate,
                                                       const std::vector<std::string>& words);

}  // namespace gradsync::cli
