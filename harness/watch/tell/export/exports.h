// What others draw while a job runs: a file for Prometheus, event files for TensorBoard, lines of
// JSON. All are made from what the job's processes have recorded so far; the job waits for nothing.
//
// Written every few seconds, less often where reading takes long, and at the end in any case. While
// the job runs, only steps that all ranks have ended are told, in the files that grow once and for
// all: what later steps reveal about earlier ones is on the page at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/base/clock.h"
#include "harness/watch/read/event.h"
#include "harness/watch/tell/export/step_file.h"

namespace gradsync::watch {

// Where to; "": not wanted.
struct ExportOptions {
  std::string prometheus;   // a file, replaced whole
  std::string job;          // Prometheus' label
  std::string tensorboard;  // a folder, made where there is none
  std::string steps_json;   // a file, appended to
};

// Returns the last word of a command that names a script, or its program: what to call the job.
std::string job_name(const std::vector<std::string>& command);

class Exports {
 public:
  // Opens all of them, and says to Prometheus that the job runs.   Errors: ConfigError with the
  // option where one cannot be written.
  explicit Exports(ExportOptions options, const Clock& clock = steady_clock());

  // Whether it is time for update(). Never where nothing is wanted.
  bool are_due() const;

  // Writes what the processes that `read` returns have done so far. It is due again later, the
  // later the longer that took.   Errors: ResultsError; what could not be written is tried again by
  // the next call. Those of `read`.
  void update(const std::function<std::vector<RankEvents>()>& read);

  // Writes what the job amounts to, now that it has ended.   Errors: ResultsError.
  void finish(const std::vector<RankEvents>& processes);

 private:
  bool are_wanted() const;
  void open_files();
  void write(const std::vector<RankEvents>& processes, bool is_running);

  ExportOptions options_;
  const Clock& clock_;
  std::int64_t due_ns_ = 0;
  std::vector<StepFile> files_;
};

}  // namespace gradsync::watch
