// `--help`, of the program on one screen and of each command, in 80 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "benchmarks/manual/command_page.h"

namespace gradsync::cli {

// Returns the program's screen: its commands by group, then examples.
std::string help_screen(const CommandPage& program);

// Returns a command's own: its usage, and what it takes.
std::string command_help(const CommandPage& command);

// What CLI11 asks for help. Commands take it over from the program where it is set before they are
// added.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace gradsync::cli
