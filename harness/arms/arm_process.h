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

  // Returns the build's own description of itself (session/context.h).
  const results::Context& build() const { return hello_.build; }
  const std::vector<ArmLaunch>& launches() const { return hello_.launches; }
  const std::string& program() const { return program_; }

  // Starts the ranks of a launch anew. Returns why it could not; nothing: they are up.
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
  // Returns the next message; nothing where the arm ended or fell silent, with death_ saying so.
  // Errors: run::Interrupted; ConfigError for a line that is no JSON.
  std::optional<nlohmann::json> receive(double silence_s);
  // Returns the next one that is no mere sign of life; a failure where there is none.
  // Errors: as receive(); ConfigError where it is no answer.
  ArmAnswer next_answer();
  // Takes what the arm has written, or writes within a tenth of a second; returns whether there was
  // something.
  bool wait_and_read();
  // Sends `request` and returns its answer, or the failure that came in its place, as also where
  // the arm is gone. Errors: as next_answer(); ConfigError for the answer to something else.
  template <typename Expected>
  std::variant<Expected, ArmFailure> ask(const ArmRequest& request);
  // Ends the process, if it runs, and keeps how it ended.
  void end();

  std::string program_;
  const std::atomic<bool>* interrupted_;
  const ArmDeadlines deadlines_;
  TalkingChild child_;
  std::deque<nlohmann::json> unread_;
  std::string death_;  // how it ended; empty: it lives
  ArmHello hello_;
  std::optional<std::size_t> open_launch_;
};

}  // namespace gradsync::arms
