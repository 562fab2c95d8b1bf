// The gate's side of an arm: one build as a child process that keeps its ranks and takes turns
// (arm_protocol.h).
//
//   ArmProcess arm("build/release", arm_arguments(options, 0), &interrupt_flag());
//   if (const auto failure = arm.open(0)) ...            // launch 0 of arm.launches()
//   const results::TrialRecord turn = arm.turn({.cell = 2, .warmup_steps = 1, .steps = 20});
//   arm.close();
//
// An arm has one request at a time, and every call blocks until it is answered. An arm that dies or
// falls silent is an answer, too: the failure of what was asked, and of everything after.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/arms/arm_protocol.h"
#include "harness/arms/talking_child.h"
#include "harness/results/records.h"
#include "harness/session/run_options.h"

namespace gradsync::arms {

// Cells that are resident together; as the arm said them, which is as its plan has them.
struct ArmLaunch {
  std::string part;
  std::string topology;
  int scale = 1;
  std::vector<nlohmann::json> cells;
  bool operator==(const ArmLaunch&) const = default;
};

// A block of steps of one cell.
struct ArmTurn {
  std::size_t cell = 0;  // of the open launch
  int warmup_steps = 1;
  int steps = 1;
};

// Why something could not be done: a trial's status, or "config", "unfit" or "internal".
struct ArmFailure {
  std::string status;
  std::string reason;
};

// Returns the program of `build`: a build directory with `gradsync` in it, or the program itself.
// Errors: ConfigError where there is none.
std::string program_of(const std::string& build);

// Returns what follows `arm` on its command line for the plan of `options`, whose name is looked up
// here: every build must run the same plan, not the one of that name beside it. `extra_work`: share
// of its own step that the build does in addition; 0: none. Errors: ConfigError.
std::vector<std::string> arm_arguments(const session::RunOptions& options, double extra_work);

// How long an arm may be silent.
struct ArmDeadlines {
  double hello_s = 120;  // it is loaded from a cold disk, and reads the plan
  double answer_s = kSilenceS;
  double grace_s = 5;  // at the end of its input, before SIGTERM, and once more before SIGKILL
};

class ArmProcess {
 public:
  // Starts `build`, a build directory with the program `gradsync` in it or the program itself, and
  // waits for its hello. `interrupted` is polled by every call; may be null.
  // Errors: ConfigError where there is no such program, where it does not start (with the last line
  // it wrote to its standard error), is no gradsync, or speaks another schema; EnvironmentError
  // where no process can be started; run::Interrupted.
  ArmProcess(const std::string& build, const std::vector<std::string>& arguments,
             const std::atomic<bool>* interrupted, const ArmDeadlines& deadlines = {});
  // Ends the child and all it started: closes its input, then SIGTERM, then SIGKILL; reaps it.
  ~ArmProcess();
  ArmProcess(const ArmProcess&) = delete;
  ArmProcess& operator=(const ArmProcess&) = delete;

  // build_context()'s (context.h) of that build.
  const nlohmann::json& build() const { return build_info_; }
  const std::vector<ArmLaunch>& launches() const { return launches_; }
  const std::string& program() const { return program_; }

  // Starts the ranks of a launch afresh. Returns why it could not; nothing: they are up.
  // Errors: run::Interrupted; ConfigError where an answer is none of this protocol.
  std::optional<ArmFailure> open(std::size_t launch);

  // Runs a block in the launch that is open, and returns its record: failed where the arm died or
  // could make none. After a status that is neither Ok nor Invalid nothing is open any more.
  // Errors: as open().
  results::TrialRecord turn(const ArmTurn& turn);

  // Ends the ranks, if some are up. Errors: as open().
  void close();

  // Whether the process still answers. Once it does not, it has been ended and reaped.
  bool alive() const { return child_.running(); }
  bool is_open() const { return open_launch_.has_value(); }
  const std::optional<std::size_t>& open_launch() const { return open_launch_; }

 private:
  void take_hello(const nlohmann::json& hello);
  // Returns the next message that is no mere sign of life; nothing where the arm ended or fell
  // silent, with death_ saying so. Errors: run::Interrupted; ConfigError for a line that is no
  // JSON.
  std::optional<nlohmann::json> receive(double silence_s);
  // Takes what the arm has written, or writes within a tenth of a second; returns whether there was
  // something.
  bool wait_and_read();
  // Sends `request` and returns its answer: event `expected` or "failed", as also where the arm is
  // gone.
  nlohmann::json ask(const nlohmann::json& request, const std::string& expected);
  results::TrialRecord trial_from(const nlohmann::json& answer) const;
  static results::TrialRecord failed_trial(const ArmLaunch& launch, std::size_t cell,
                                           const nlohmann::json& answer);
  // Ends the process, if it runs, and keeps how it ended.
  void end();

  std::string program_;
  const std::atomic<bool>* interrupted_;
  const ArmDeadlines deadlines_;
  TalkingChild child_;
  std::deque<nlohmann::json> unread_;
  std::string death_;  // how it ended; empty: it lives
  nlohmann::json build_info_;
  std::vector<ArmLaunch> launches_;
  std::optional<std::size_t> open_launch_;
};

}  // namespace gradsync::arms
