// The files of one run in their directory: takes it, appends trials, continues after a crash.
//
// The idea: a crash at any moment loses at most the trial that was running. trials.jsonl, and
// timelines.jsonl before it, only ever grow by whole lines; every other file is written beside its
// place and renamed into it. A lock on the directory, which the kernel drops with the process,
// keeps two runs apart.
//
// Errors throughout: ConfigError where the user chose wrongly (directory taken, foreign file),
// ResultsError with the system's own words where writing failed (disk full, no permission).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/results/records.h"
#include "harness/results/run_context.h"
#include "harness/results/write_file.h"

namespace gradsync::results {

// Names inside a run's directory.
inline constexpr const char* kTrialsFile = "trials.jsonl";
inline constexpr const char* kResultFile = "result.json";
inline constexpr const char* kSearchFile = "search.json";
inline constexpr const char* kFastestFile = "fastest.json";
inline constexpr const char* kGateFile = "gate.json";
inline constexpr const char* kTurnsFile = "gate.turns.json";
inline constexpr const char* kGatePlanFile = "plan.json";          // of a stored run, run again
inline constexpr const char* kCandidateRun = "candidate";          // a directory: that run
inline constexpr const char* kCandidateAgain = "candidate_again";  // where that one failed
// What the training commands of a gate print.
inline constexpr const char* kBaselineOutput = "baseline.log";
inline constexpr const char* kCandidateOutput = "candidate.log";
inline constexpr const char* kControlOutput = "control.log";
// For a training command that is compared with a file of counts: its output, what was seen of it,
// and its counts as such a file.
inline constexpr const char* kJobOutput = "job.log";
inline constexpr const char* kWatchedFile = "watch.json";
inline constexpr const char* kCountsFile = "counts.json";

// Makes `directory`, parents included, fit for a run: new or empty; or holding an earlier run,
// which `resume` keeps and `force` removes (our own files only, never others'). Removes the
// temporaries of a crashed run. Errors: ConfigError where it is taken and neither flag is given,
// both are, another run is writing in it, there is nothing to resume, or a file is in its place;
// ResultsError where it is unwritable.
void prepare_directory(const std::string& directory, bool resume, bool force);

// Replaces the file at `path` by `text`, whole or not at all, also when the power fails.
// Blocks: until the disk has it. Errors: ResultsError; the old file is then as it was.
void write_atomically(const std::string& path, const std::string& text);

// An open directory with an exclusive lock on it; held until destruction or death of the process.
class DirectoryLock {
 public:
  // Errors: ConfigError where another run holds the lock; ResultsError where it cannot be opened.
  explicit DirectoryLock(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  int descriptor() const { return fd_; }

 private:
  int fd_;
};

// DIR/trials.jsonl and DIR/timelines.jsonl, open for append.
class TrialLog {
 public:
  // Locks the directory and drops what a crash left: part of a line, and timelines of no trial.
  // Errors: as DirectoryLock; ConfigError where the file ends in something that is no trial;
  // ResultsError.
  explicit TrialLog(const std::string& directory);

  // Adds the trial's timelines and then its line, and returns it as read_trials() would: with its
  // events and phases, its memory in the file alone. Blocks: until the disk has both (milliseconds;
  // never inside a timed window). Errors: ResultsError; the files then end as before, and append
  // may be tried again.
  TrialRecord append(TrialRecord trial);

 private:
  DirectoryLock lock_;
  std::optional<GrowingFile> timelines_;
  std::optional<GrowingFile> trials_;
};

// Returns the trials of DIR/trials.jsonl in the order of the file, one for each key: where a trial
// was run again after --resume, the later one. No such file: no trials. Memory timelines stay where
// they are (timelines.h). A last line that a crash cut off is left out, and so are timelines that
// were not kept; `*warning` (if given) says so, and is empty otherwise. Errors: ConfigError with
// file and line for a line that is no trial record, or one of a newer version.
std::vector<TrialRecord> read_trials(const std::string& directory, std::string* warning = nullptr);

// What is read of a result.json: all else in it is made again from its trials.
struct StoredResult {
  Context context;
  nlohmann::json plan;
  std::optional<int> exit_status;
};

// Returns DIR/result.json. Errors: ConfigError where it is missing, foreign or of a newer version.
StoredResult read_result(const std::string& directory);

// Names one trial of a plan: part, cell, launch and round.
std::string trial_key(const std::string& part, const Parameters& cell, int launch, int round);

// Returns the keys of the trials that need not run again: those with a final outcome (ok, oom,
// invalid). Failed, timed out and skipped trials run again.
std::set<std::string> done_keys(const std::vector<TrialRecord>& trials);

// Checks that --resume would continue the same measurement as the `earlier` one. In the two
// contexts, "commit", "host", "weights" and "data" count.
// Errors: ConfigError that lists every difference with both values.
void check_resumable(const StoredResult& earlier, const nlohmann::json& plan_source,
                     const Context& context);

}  // namespace gradsync::results
