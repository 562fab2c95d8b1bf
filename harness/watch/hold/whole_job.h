// A training command that is watched from its start to its end, or as far as wanted, for those who
// want to know what it did and not to see it: its output goes to a log, and, if wanted, on from
// there.
//
// Unlike `gradsync watch` it is not what the user called: it runs in a process group of its own,
// has nothing to read, and nothing of it is left when we are gone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/account/records.h"
#include "harness/watch/hold/held_job.h"
#include "harness/watch/inject/job_torch.h"
#include "harness/watch/read/read_events.h"

namespace gradsync::watch {

struct WholeJob {
  std::vector<std::string> command;
  std::string python;  // its interpreter, where the command does not show it; "": find it
  std::optional<JobTorch> torch = {};  // absent: find it
  // GPUs of paper that it has, "8xh100": a peak is then that of a GPU or not known; "": the
  // machine's own.
  std::string on = {};
  // What its environment needs beside that; libraries of LD_PRELOAD come behind ours.
  EnvironmentChanges more = {};
  std::string keep = {};      // a new or empty folder for what its processes record; "": none
  std::string log;            // file to which its output and errors are appended
  bool shows_output = false;  // on stderr as well
  std::optional<double> budget_s = {};  // then it is ended; absent: it takes what it takes
  // Once every process has made so many steps it is ended, too; absent: it makes all.
  std::optional<int> steps = {};
  // As soon as a process's CPU tensors hold more than that it is ended, but where there are GPUs,
  // whose memory may be meant.
  std::optional<std::int64_t> most_bytes = {};
  double step_deadline_s = JobDeadlines{}.step_s;
  int processes = 0;  // as JobStart
};

struct SeenJob {
  std::string torch;                              // its version
  WatchedFolder folder;                           // all that its processes left
  std::vector<account::AccountRecords> accounts;  // where `more` asked for them
  std::int64_t steps = 0;                         // that every process ended
  std::string failure;     // "made 3 steps, then exited with status 1: ..."; "": it did not fail
  bool was_ended = false;  // its budget was over
  std::optional<std::int64_t> too_much_bytes;  // it held that, and was ended for it
};

// Runs it and waits for its end, or ends it. `poll` is called at least every tenth of a second;
// what it throws ends the job. Errors: EnvironmentError where there is no torch to watch, or no
// watcher for it, and as paper::build_standins, require_host_memory (with GPUs of paper) and
// HeldJob; ConfigError where there is no such program.
SeenJob run_whole_job(const WholeJob& job, const std::function<void()>& poll);

// Returns why a job that ended without a step gave nothing to see: what its processes said, or what
// is most likely.
std::string why_no_step(const SeenJob& job);

}  // namespace gradsync::watch
