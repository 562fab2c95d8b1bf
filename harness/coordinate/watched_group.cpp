#include "harness/coordinate/watched_group.h"

#include <algorithm>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/messages.h"
#include "harness/coordinate/merge.h"
#include "harness/memory/memory_prediction.h"

namespace gradsync::coordinate {
namespace {

using launch::RankEvent;

constexpr double kTickS = 0.1;
// After the first word of a failure, how long the other ranks may take to tell theirs.
constexpr double kGraceS = 1.0;
// A collective's own deadline fires first and knows more; the launcher's is the safety net.
constexpr double kDeadlineSlackS = 2.0;

// A record that says which trial it is of, and what was predicted for it.
results::TrialRecord record_for(const RunnableLaunch& runnable, const plan::Trial& trial) {
  results::TrialRecord record = record_of(runnable.part, runnable.spec.launch, trial);
  const auto predicted = memory::predict_memory(trial.cell, runnable.spec).memory;
  if (!predicted) return record;
  record.predicted_peak_allocated_bytes = predicted->peak_bytes;
  if (trial.cell.offload != "none") {
    record.predicted_host_peak_allocated_bytes = predicted->host_peak_bytes;
  }
  record.predicted_peak_by_category = measure::by_name(predicted->peak_by_category);
  return record;
}

}  // namespace

WatchedGroup::WatchedGroup(const RunnableLaunch& runnable, const launch::LaunchSpec& spec,
                           std::function<void(const results::TrialRecord&)> trial_ended)
    : runnable_(runnable),
      trial_ended_(std::move(trial_ended)),
      ranks_(runnable.start_ranks()),
      group_(*ranks_),
      watch_(group_),
      since_ns_(steady_clock().now_ns()) {
  group_.send_all(to_json(BeginLaunch{spec}));
}

void WatchedGroup::await(const std::vector<plan::Trial>& trials) {
  awaited_.insert(awaited_.end(), trials.begin(), trials.end());
  since_ns_ = steady_clock().now_ns();
}

std::optional<Failure> WatchedGroup::advance() {
  check_interrupt();
  if (const auto event = group_.next_event(kTickS)) handle(*event);
  watch_.note_hangs(steady_clock().now_ns(), since_ns_, runnable_.spec.timeout_s + kDeadlineSlackS);
  if (!watch_.first_cause()) return std::nullopt;
  return settle_cause();
}

void WatchedGroup::check_interrupt() const {
  if (runnable_.interrupted != nullptr && runnable_.interrupted->load()) throw Interrupted();
}

void WatchedGroup::handle(const RankEvent& event) {
  if (event.kind != RankEvent::Kind::Message) {
    watch_.note(event);
    return;
  }
  RankMessage said = rank_message(event.message, group_.label(event.rank));
  std::visit(Overloaded{[&](const launch::StoreOpened& said) {
                          for (int rank = 0; rank < group_.size(); ++rank) {
                            if (rank == event.rank) continue;
                            group_.send(rank, to_json(launch::StorePort{said.port}));
                          }
                        },
                        [&](const RankReady&) { ++ready_ranks_; },
                        [&](TrialDone& said) { take(event.rank, std::move(said)); },
                        [&](const RankDone&) { watch_.note_done(event.rank); },
                        [&](const RankFailure& said) { watch_.note(event.rank, said); }},
             said);
}

void WatchedGroup::take(int rank, TrialDone message) {
  const int order = message.order;
  auto& messages = gathered_[order];
  messages[rank] = std::move(message);
  if (static_cast<int>(messages.size()) < group_.size()) return;
  const auto trial = std::ranges::find(awaited_, order, &plan::Trial::order);
  GRADSYNC_CHECK(trial == awaited_.end(), ==, false);
  results::TrialRecord record =
      merge_ranks(record_for(runnable_, *trial), messages, runnable_.spec.as_published);
  awaited_.erase(trial);
  gathered_.erase(order);
  finish(std::move(record));
}

void WatchedGroup::finish(results::TrialRecord record) {
  const std::string objection =
      timing_objection(record, runnable_.cores, runnable_.spec.threads_per_rank);
  const bool is_valid = record.model_info->has_valid_times();  // as its ranks say
  if (is_valid && !objection.empty()) record.model_info->refuse_times(objection);
  trial_ended_(record);
}

std::optional<Failure> WatchedGroup::settle_cause() {
  const std::int64_t until_ns = steady_clock().now_ns() + nanoseconds(kGraceS);
  while (steady_clock().now_ns() < until_ns) {
    check_interrupt();
    if (const auto event = group_.next_event(kTickS)) handle(*event);
  }
  watch_.note_stopped();
  return watch_.first_cause();
}

results::TrialRecord failed_record(const RunnableLaunch& runnable, const plan::Trial& trial,
                                   const Failure& failure) {
  results::TrialRecord record = record_for(runnable, trial);
  record.status = results::status_from_string(failure.status);
  record.reason = failure.reason;
  record.oom_place = failure.oom_place;
  return record;
}

}  // namespace gradsync::coordinate
