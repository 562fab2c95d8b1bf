// The options that commands share: what runs, where results go, who starts the ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "harness/session/run_options.h"

namespace gradsync::cli {

// Registers PLAN and the options that say what of it runs. `options` must outlive `command`.
void add_plan_options(CLI::App& command, session::RunOptions& options);

// Returns the GPUs of --on, "" where it was not given, and takes them from the plan's overrides:
// they are a training command's.
std::string take_gpus(session::RunOptions& options);

// Registers the options that say where results go and who starts the ranks.
void add_session_options(CLI::App& command, session::RunOptions& options);

// Returns what help calls the value of a field: TOPOLOGY of "topology".
std::string value_name(const std::string& field);

// Registers `flag` as a shorthand of --set `field`; several values make a list.
void add_shorthand(CLI::App& command, session::RunOptions& options, const std::string& flag,
                   const std::string& field, const std::string& about);

}  // namespace gradsync::cli
