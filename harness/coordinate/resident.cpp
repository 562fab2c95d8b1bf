#include "harness/coordinate/resident.h"

#include "harness/base/errors.h"

namespace gradsync::coordinate {
namespace {

RunnableLaunch resident(RunnableLaunch runnable) {
  runnable.spec.resident = true;
  return runnable;
}

}  // namespace

ResidentRanks::ResidentRanks(RunnableLaunch runnable, std::function<void()> tick)
    : runnable_(resident(std::move(runnable))), tick_(std::move(tick)) {
  group_ = std::make_unique<WatchedGroup>(
      runnable_, runnable_.spec, [this](const results::TrialRecord& record) { record_ = record; });
  wait_until([this] { return group_->ready(); });
}

results::TrialRecord ResidentRanks::run(const plan::Trial& trial) {
  GRADSYNC_CHECK(failure_.has_value(), ==, false);
  group_->await({trial});
  group_->ranks().send_all(to_json(RunTrial{trial}));
  wait_until([this] { return group_->awaited().empty(); });
  if (failure_) return failed_record(runnable_, trial, *failure_);
  return *record_;
}

void ResidentRanks::wait_until(const std::function<bool()>& done) {
  while (!done()) {
    if (tick_) tick_();
    failure_ = group_->advance();
    if (!failure_) continue;
    group_.reset();
    throw_if_general(*failure_);
    return;
  }
}

}  // namespace gradsync::coordinate
