// Another program, run to its end for what it says.
#pragma once

#include <string>
#include <vector>

namespace gradsync::launch {

struct ProgramOutput {
  int status = -1;   // its exit status; 128 + its number where a signal ended it
  std::string text;  // its standard output, and errors where kept, as they came, without the last
                     // newline
};

// What becomes of a program's standard error: kept with its output, or written where ours is.
enum class Errors { Kept, Ours };

// Runs `command`, looked up in PATH, with nothing to read. Blocks until it ends.
// Errors: EnvironmentError where it cannot be started, or has not ended within `timeout_s` and was
// killed.
ProgramOutput output_of(const std::vector<std::string>& command, double timeout_s,
                        Errors errors = Errors::Kept);

// Returns what lies in a file of memory, without the last newlines.
std::string content_of(int fd);

// The exit status by which a shell reports such an end (waitpid's).
int shell_status(int wait_status);

}  // namespace gradsync::launch
