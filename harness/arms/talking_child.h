// A child process that is talked to through its standard input and output, a line of JSON each.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "harness/launch/json_lines.h"
#include "harness/launch/unique_fd.h"

namespace gradsync::arms {

// A child process in a process group of its own: Ctrl-C in the terminal reaches only its parent,
// which decides. Its standard error is kept in memory.
class TalkingChild {
 public:
  // Starts command[0], a path, with the words after it as arguments.
  // Errors: ConfigError where that is no program; EnvironmentError where no process can be started.
  explicit TalkingChild(const std::vector<std::string>& command);
  ~TalkingChild();  // ends what still runs, without grace
  TalkingChild(const TalkingChild&) = delete;
  TalkingChild& operator=(const TalkingChild&) = delete;

  launch::JsonLines& lines() { return lines_; }

  bool running() const { return pid_ > 0; }
  // Kills its whole process group, if it runs.
  void kill() const;

  // Ends the process and reaps it: by the end of its input, by SIGTERM `grace_s` later, by SIGKILL
  // after as long again. Returns how it ended, with the last line that it wrote to standard error:
  // "PROGRAM exited with status 2: ...". Call once.
  std::string end(double grace_s);

 private:
  std::string last_diagnostic() const;

  std::string program_;
  launch::JsonLines lines_;
  launch::UniqueFd diagnostics_;
  pid_t pid_ = -1;
};

}  // namespace gradsync::arms
