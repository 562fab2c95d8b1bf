// The options of `gradsync gate`.
#pragma once

#include <CLI/CLI.hpp>

#include "harness/arms/gate_question.h"

namespace gradsync::cli {

// Registers PLAN and the options of a gate. `options` must outlive `command`.
void add_gate_options(CLI::App& command, arms::GateOptions& options);

}  // namespace gradsync::cli
