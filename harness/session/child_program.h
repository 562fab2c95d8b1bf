// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

namespace gradsync::session {

// Where the program's output goes: its results to our messages or nowhere, its messages to ours or
// nowhere.
enum class Output { AllToStderr, MessagesToStderr, Nowhere };

// Runs `command` and returns its exit status, or -1 when it cannot start or is killed. Ctrl-C
// reaches it as it reaches us; a signal that only we got (interrupt.h) is passed on. Blocks.
int run_program(const std::vector<std::string>& command, Output output);

}  // namespace gradsync::session
