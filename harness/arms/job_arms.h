// The training commands of a gate, resident side by side: each is watched, held at the end of an
// optimizer step, and takes its steps when it is its turn (harness/watch/hold/held_job.h).
//
// A fresh start of an arm runs the command once more. The communication of a job is counted in the
// last warm-up step of every start; by then DDP has arranged its buckets. What it computes is
// counted there, too, but only in starts without timed turns: it makes steps longer.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/arms/gate_question.h"
#include "harness/arms/resident_arms.h"
#include "harness/gate/gate_report.h"
#include "harness/gate/work.h"
#include "harness/watch/hold/held_job.h"
#include "harness/watch/hold/watched_job.h"
#include "harness/watch/judge/watched.h"

namespace gradsync::arms {

// A training command, and what it is watched with.
struct JobCommand {
  std::string text;                // as it was given
  std::vector<std::string> words;  // of it
  watch::JobTorch torch;
  watch::PreloadLibrary library;
};

// What of its computation (harness/gate/work.h) a start counts in its warm-up steps.
enum class CountedWork { None, Operators, OperatorsAndLines };

class JobArms : public ResidentArms {
 public:
  // The commands are --baseline and --candidate; `directory` gets the jobs' output, a file for each
  // arm. `interrupted` is polled by everything here that blocks. Why a process of a job cannot be
  // watched, and so not be held, is a warning.
  // Errors: ConfigError for a command that is none; EnvironmentError where there is no torch to
  // watch, or the watcher cannot be built for it.
  JobArms(const GateOptions& options, const std::string& directory,
          const std::atomic<bool>* interrupted);

  // The one row that a gate of jobs has.
  static GateRow row();

  void start_control() override {}  // as the others it starts with its first block
  void exchange_baselines(bool exchanged) override {}  // every start of an arm is a new process

  // Errors: also ConfigError where a command fails before its first step ever, has other ranks than
  // the baseline, or cannot be held; EnvironmentError where it ends without a step that could be
  // seen, or its events could not be written.
  Block run(gate::Arm arm, const GateRow& row, int warmup_steps, int steps) override;
  void close() override;

  // What the starts from here on count; at first it is nothing.
  void count_work(CountedWork counted) { counted_work_ = counted; }

  gate::Side side(gate::Arm arm) const;
  bool same_command() const;
  // What was seen of an arm in its first start; absent: it took no block.
  const std::optional<watch::Watched>& watched(gate::Arm arm) const;
  // The work of a step that all counted starts of the arm have in common. Starts of the control are
  // the baseline's. Absent: no start was counted.
  const std::optional<gate::HeldWork>& work(gate::Arm arm) const;
  // "the baseline made 12 of 20 steps, then exited with status 0" of the first job that was over
  // before its turn was; "": none was.
  const std::string& over_early() const { return over_early_; }

 private:
  struct Job {
    JobCommand command;
    std::string log;
    std::optional<watch::Watched> watched;
    std::optional<gate::HeldWork> work;
    std::unique_ptr<watch::EventFolder> folder;  // of the start that is resident
    std::unique_ptr<watch::HeldJob> held;
    std::set<std::string> told;     // faults that were told
    std::int64_t next_look_ns = 0;  // for others
  };

  Job& of(gate::Arm arm) { return jobs_[static_cast<std::size_t>(arm)]; }
  const Job& of(gate::Arm arm) const { return jobs_[static_cast<std::size_t>(arm)]; }
  void open(gate::Arm arm);
  void tell_faults(gate::Arm arm);
  void count(gate::Arm arm, const watch::TakenBlock& block, int warmup_steps,
             results::TrialRecord& record);
  void add_work(gate::Arm arm, gate::HeldWork work);
  void require_as_many_ranks(gate::Arm arm) const;
  void fail(gate::Arm arm, const watch::TakenBlock& block, results::TrialRecord& record);

  const std::atomic<bool>* interrupted_;
  std::array<Job, gate::kArms.size()> jobs_;
  CountedWork counted_work_ = CountedWork::None;
  std::string over_early_;
};

// Returns the training command as a side of a gate, with what is known of it.
// `torch`: the version that the command uses. `watched`: what was seen of it; null: nothing was.
gate::Side side_of_job(const std::string& command, const std::string& torch,
                       const watch::Watched* watched);

}  // namespace gradsync::arms
