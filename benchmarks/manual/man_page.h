// gradsync.1: the man page, made from the parser's own pages.
#pragma once

#include <string>

#include "benchmarks/manual/command_page.h"

namespace gradsync::cli {

// Returns the page in the man macros of roff(7). `version`: the program's; `date`: of the day it is
// made, as in 2026-11-23.
std::string man_page(const CommandPage& program, const std::string& version,
                     const std::string& date);

}  // namespace gradsync::cli
