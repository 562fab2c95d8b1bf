// Shows at a terminal how far a plan is, and writes the result of each trial into a log file.
//
// On a terminal one line is rewritten in place and never wraps; trials that went wrong leave a line
// of their own above it. Elsewhere each finished trial is one line and nothing is rewritten. Write
// it to stderr: stdout is for results.
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "harness/base/clock.h"
#include "harness/results/records.h"
#include "harness/text/eta.h"

namespace gradsync::text {

struct ProgressOptions {
  bool terminal = false;   // the stream is one: rewrite a line in place
  bool colour = false;     // statuses in colour; they are words all the same
  bool quiet = false;      // say nothing but what went wrong
  std::size_t width = 80;  // columns; a longer line is cut
};

// One trial as the plan has it.
struct PlannedTrial {
  std::string topology;
  std::string strategy;
  std::string cell;  // names the cell: trials of one name are expected to take equally long
  int launch = 0;    // from 0
  int launches = 1;
  int steps = 0;  // warm-up included
};

// Where the running trial is, for one line.
struct ProgressState {
  std::size_t trial = 0;  // from 0
  int step = 0;           // finished steps
  std::optional<double> step_s;
  std::optional<double> eta_s;
};

// Returns "[11/32] 2x1 | no_sync | launch 2/4 | step 5/7 | 0.912 s/step | eta 3m40s", cut to
// `width`.
std::string progress_line(const std::vector<PlannedTrial>& plan, const ProgressState& state,
                          std::size_t width);

class Progress {
 public:
  // `out` and `clock` must outlive this object.
  Progress(std::ostream& out, const Clock& clock, ProgressOptions options,
           std::vector<PlannedTrial> plan);

  // Clears the line it may have left.
  ~Progress();

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(std::size_t trial);

  // `step` steps of the trial are done. The time per step is taken from the clock; call it as often
  // as you like, a terminal is written to only when the line changes.
  void update(int step);

  // The trial is over. `step_s` is its mean timed step, if it has one.
  void finish(results::Status status, const std::string& reason, std::optional<double> step_s);

  // Removes the line from the terminal, so that something else can be printed there.
  void clear();

 private:
  void show(const std::string& line);
  void print_finished(results::Status status, const std::string& reason,
                      std::optional<double> step_s);

  std::ostream& out_;
  const Clock& clock_;
  ProgressOptions options_;
  std::vector<PlannedTrial> plan_;
  Eta eta_;
  ProgressState state_;
  std::int64_t started_ns_;
  std::int64_t trial_started_ns_;
  std::string shown_;
};

}  // namespace gradsync::text
