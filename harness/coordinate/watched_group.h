// One start of the ranks of a launch, watched while they work: what they tell is gathered until a
// trial is whole, and a rank that dies, hangs or gives up is noticed.
//
// coordinator.h works through a list of trials with it, resident.h runs one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/coordinate/failure_watch.h"
#include "harness/coordinate/rank_messages.h"
#include "harness/coordinate/timing_objection.h"
#include "harness/launch/rank_group.h"
#include "harness/results/records.h"

namespace gradsync::coordinate {

// Raised when the user interrupts; finished trials are already recorded.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

struct RunnableLaunch {
  std::string part;
  launch::LaunchSpec spec;  // the trials still to run
  // Starts all ranks of spec.topology afresh. Errors: EnvironmentError; CommError where a host is
  // gone.
  std::function<std::unique_ptr<launch::RankGroup>()> start_ranks;
  Cores cores;
  const std::atomic<bool>* interrupted = nullptr;  // polled; may be null
};

class WatchedGroup {
 public:
  // Starts the ranks of `runnable`, which must outlive this, and tells them `spec`. `trial_ended`
  // gets the record of every trial that all ranks have told of, in the order they end. Errors: as
  // RunnableLaunch::start_ranks.
  WatchedGroup(const RunnableLaunch& runnable, const launch::LaunchSpec& spec,
               std::function<void(const results::TrialRecord&)> trial_ended);
  WatchedGroup(const WatchedGroup&) = delete;
  WatchedGroup& operator=(const WatchedGroup&) = delete;

  // The ranks will run `trials`, in this order, after those that are awaited already.
  void await(const std::vector<plan::Trial>& trials);
  // Trials that have not ended, in the order they run.
  const std::vector<plan::Trial>& awaited() const { return awaited_; }
  // Whether every rank has said that it is ready for trials; only resident ones say so.
  bool ready() const { return ready_ranks_ == group_.size(); }

  // Takes the next event, if one comes within a tenth of a second. Returns the first cause when a
  // rank has failed, after a second in which the others may tell theirs; the group is then of no
  // use any more. A hang is noticed timeout_s after the last sign of life of any rank, or after
  // await(), plus two seconds. Errors: Interrupted; InternalError where a rank writes what is no
  // JSON object.
  std::optional<Failure> advance();

  launch::RankGroup& ranks() { return group_; }

 private:
  void check_interrupt() const;
  void handle(const launch::RankEvent& event);
  void take(int rank, TrialDone message);
  void finish(results::TrialRecord record);
  std::optional<Failure> settle_cause();

  const RunnableLaunch& runnable_;
  std::function<void(const results::TrialRecord&)> trial_ended_;
  std::vector<plan::Trial> awaited_;
  std::unique_ptr<launch::RankGroup> ranks_;
  launch::RankGroup& group_;
  FailureWatch watch_;
  std::int64_t since_ns_;  // no rank owes a sign of life from before
  int ready_ranks_ = 0;
  std::map<int, std::map<int, TrialDone>> gathered_;  // by order, by rank
};

// Returns the record of a trial that `failure` ended, or kept from beginning.
results::TrialRecord failed_record(const RunnableLaunch& runnable, const plan::Trial& trial,
                                   const Failure& failure);

}  // namespace gradsync::coordinate
