#include "harness/run/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/run/failure_watch.h"
#include "harness/run/memory_prediction.h"
#include "harness/run/merge.h"

namespace gradsync::run {
namespace {

using launch::RankEvent;
using nlohmann::json;

constexpr double kTickS = 0.1;
// After the first word of a failure, how long the other ranks may take to tell theirs.
constexpr double kGraceS = 1.0;
// A collective's own deadline fires first and knows more; the launcher's is the safety net.
constexpr double kDeadlineSlackS = 2.0;

// A record that says which trial it is of, and what was predicted for it.
results::TrialRecord record_of(const LaunchJob& job, const plan::Trial& trial) {
  results::TrialRecord record = run::record_of(job.part, job.spec.launch, trial);
  add_prediction(record, trial.cell, job.spec);
  return record;
}

// One group of ranks and the trials it is working through.
class GroupRun {
 public:
  GroupRun(const LaunchJob& job, std::vector<plan::Trial>& remaining,
           const LaunchCallbacks& callbacks)
      : job_(job),
        remaining_(remaining),
        callbacks_(callbacks),
        ranks_(job.start_ranks()),
        group_(*ranks_),
        watch_(group_),
        started_ns_(steady_clock().now_ns()) {
    LaunchSpec spec = job.spec;
    spec.trials = remaining;
    group_.send_all({{"launch", to_json(spec)}});
  }

  // Returns when every trial has run, or with the cause when the group has failed.
  std::optional<Failure> run() {
    while (!remaining_.empty()) {
      check_interrupt();
      if (const auto event = group_.next_event(kTickS)) handle(*event);
      if (callbacks_.tick && !remaining_.empty()) callbacks_.tick(remaining_.front(), group_);
      watch_.note_hangs(steady_clock().now_ns(), started_ns_,
                        job_.spec.timeout_s + kDeadlineSlackS);
      if (watch_.first_cause()) return settle_cause();
    }
    return std::nullopt;
  }

 private:
  void check_interrupt() const {
    if (job_.interrupted != nullptr && job_.interrupted->load()) throw Interrupted();
  }

  void handle(const RankEvent& event) {
    if (event.kind != RankEvent::Kind::Message) {
      watch_.note(event);
      return;
    }
    const std::string what = event.message.at("event");
    if (what == "store") {
      for (int rank = 0; rank < group_.size(); ++rank) {
        if (rank != event.rank) group_.send(rank, {{"store_port", event.message.at("port")}});
      }
    } else if (what == "trial") {
      take(event.rank, event.message);
    } else if (what == "error") {
      watch_.note(event);
    }
  }

  void take(int rank, const json& message) {
    const int order = message.at("order");
    auto& messages = gathered_[order];
    messages[rank] = message;
    if (static_cast<int>(messages.size()) < group_.size()) return;
    const auto trial = std::find_if(remaining_.begin(), remaining_.end(),
                                    [&](const plan::Trial& t) { return t.order == order; });
    GRADSYNC_CHECK(trial == remaining_.end(), ==, false);
    results::TrialRecord record =
        merge_ranks(record_of(job_, *trial), messages, job_.spec.as_published);
    remaining_.erase(trial);
    gathered_.erase(order);
    finish(std::move(record));
  }

  void finish(results::TrialRecord record) {
    const int threads = group_.size() * job_.spec.threads_per_rank;
    if (!record.model_info.value("paced", false) && threads > job_.usable_cpus) {
      record.model_info["timing_valid"] = false;
      record.model_info["timing_reason"] =
          fmt::format("{} compute threads share {} cores", threads, job_.usable_cpus);
    }
    callbacks_.trial_ended(record);
  }

  std::optional<Failure> settle_cause() {
    const std::int64_t until_ns = steady_clock().now_ns() + nanoseconds(kGraceS);
    while (steady_clock().now_ns() < until_ns) {
      check_interrupt();
      if (const auto event = group_.next_event(kTickS)) handle(*event);
    }
    watch_.note_stopped();
    return watch_.first_cause();
  }

  const LaunchJob& job_;
  std::vector<plan::Trial>& remaining_;
  const LaunchCallbacks& callbacks_;
  std::unique_ptr<launch::RankGroup> ranks_;
  launch::RankGroup& group_;
  FailureWatch watch_;
  std::int64_t started_ns_;
  std::map<int, std::map<int, json>> gathered_;  // by order, by rank
};

// Makes an EnvironmentError again of the text of one, "WHAT (REMEDY)".
EnvironmentError environment_error(const std::string& text) {
  const auto remedy = text.rfind(" (");
  if (remedy == std::string::npos || !text.ends_with(')')) {
    return {text, "see gradsync doctor"};
  }
  return {text.substr(0, remedy), text.substr(remedy + 2, text.size() - remedy - 3)};
}

// What no other trial would be spared from ends the plan.
void throw_if_general(const Failure& failure) {
  if (failure.status == "config") throw ConfigError(failure.reason);
  if (failure.status == "internal") throw InternalError(failure.reason);
  if (failure.status == "unfit") throw environment_error(failure.reason);
}

results::TrialRecord failed_record(const LaunchJob& job, const plan::Trial& trial,
                                   const Failure& failure) {
  results::TrialRecord record = record_of(job, trial);
  record.status = results::status_from_string(failure.status);
  record.reason = failure.reason;
  return record;
}

}  // namespace

void run_launch(const LaunchJob& job, const LaunchCallbacks& callbacks) {
  std::vector<plan::Trial> remaining = job.spec.trials;
  while (!remaining.empty()) {
    std::optional<Failure> failure;
    {
      GroupRun run(job, remaining, callbacks);
      failure = run.run();
    }
    if (!failure) continue;
    throw_if_general(*failure);
    // Ranks that never began a trial would not begin the next one either.
    const bool before_first = failure->order < 0;
    while (!remaining.empty()) {
      callbacks.trial_ended(failed_record(job, remaining.front(), *failure));
      remaining.erase(remaining.begin());
      if (!before_first) break;
    }
  }
}

}  // namespace gradsync::run
