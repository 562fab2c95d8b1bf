// What others draw while a job runs: a file for Prometheus, event files for TensorBoard, lines of
// JSON. All are made from what the job's processes have recorded so far; the job waits for nothing.
//
// They are written every few seconds, less often where reading takes long, and at the end in any
// case. While the job runs, they have only steps that all ranks have ended. Lines of files that
// grow never change: what later steps reveal about earlier ones is on the page at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/base/clock.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/judge/watched_steps.h"
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

// A watched job in Prometheus' text format, for the textfile collector of node_exporter.
//
// Names and units are by Prometheus' conventions: base units as suffixes, `_total` for what only
// grows. The gauges are of the step that most steps are like, as on the page; rates come from the
// counters. What is not known has no line.
//
// Returns the whole file. `job`: the value of the label on each line, any text.
std::string prometheus_text(const Watched& watched, const std::string& job, bool is_running);

inline constexpr const char* kWatchStepSchema = "gradsync.watch_step/1";

// Returns a step as a line of JSON of that schema (results/schema/watch_step.schema.json), with its
// newline. `ended_s`: when the step ended, in seconds since 1970. What is
// not known is null, with its reason in "null_reasons".
std::string step_line(const WatchedStep& step, double ended_s);

}  // namespace gradsync::watch
