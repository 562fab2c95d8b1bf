#include "harness/measure/step_recorder.h"

namespace gradsync::measure {
namespace {

launch::Activity activity_of(Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return launch::Activity::Forward;
    case Phase::Backward:
      return launch::Activity::Backward;
    case Phase::Wait:
      return launch::Activity::Wait;
    case Phase::Optimizer:
      return launch::Activity::Optimizer;
  }
  return launch::Activity::Idle;
}

}  // namespace

double StepTimes::phase_s(Phase phase) const {
  std::int64_t total_ns = 0;
  for (const Interval& interval : intervals) {
    if (interval.phase == phase) total_ns += interval.end_ns - interval.start_ns;
  }
  return seconds(total_ns);
}

void StepRecorder::begin_block() {
  steps_.clear();
  current_ = {};
  open_ = false;
  micro_batch_ = 0;
  current_.start_ns = clock_.now_ns();
}

void StepRecorder::begin_micro_batch(std::int32_t micro_batch) {
  micro_batch_ = micro_batch;
  if (page_ != nullptr) page_->micro_batch.store(micro_batch, std::memory_order_relaxed);
}

void StepRecorder::end_step() {
  leave();
  current_.end_ns = clock_.now_ns();
  const std::int64_t next_start_ns = current_.end_ns;
  steps_.push_back(std::move(current_));
  current_ = {};
  current_.start_ns = next_start_ns;
  micro_batch_ = 0;
  if (page_ != nullptr) page_->step.fetch_add(1, std::memory_order_relaxed);
  publish(launch::Activity::Idle, next_start_ns);
}

void StepRecorder::enter(Phase phase) {
  const std::int64_t now_ns = clock_.now_ns();
  if (open_) current_.intervals.back().end_ns = now_ns;
  current_.intervals.push_back({phase, micro_batch_, now_ns, now_ns});
  open_ = true;
  publish(activity_of(phase), now_ns);
}

void StepRecorder::leave() {
  if (!open_) return;
  current_.intervals.back().end_ns = clock_.now_ns();
  open_ = false;
}

void StepRecorder::publish(launch::Activity activity, std::int64_t now_ns) {
  if (page_ == nullptr) return;
  page_->activity.store(activity, std::memory_order_relaxed);
  page_->progress_ns.store(now_ns, std::memory_order_relaxed);
}

}  // namespace gradsync::measure
