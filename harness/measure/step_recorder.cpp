#include "harness/measure/step_recorder.h"

#include <algorithm>

namespace gradsync::measure {
namespace {

launch::Activity activity_of(Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return launch::Activity::Forward;
    case Phase::Backward:
    case Phase::Recompute:
    case Phase::Copy:
    case Phase::Offload:
    case Phase::Cast:
      return launch::Activity::Backward;
    case Phase::Wait:
      return launch::Activity::Wait;
    case Phase::Optimizer:
      return launch::Activity::Optimizer;
  }
  return launch::Activity::Idle;
}

std::vector<PhaseInterval> with_joined_copies(const std::vector<PhaseInterval>& intervals) {
  std::vector<PhaseInterval> joined;
  for (const PhaseInterval& interval : intervals) {
    const std::size_t count = joined.size();
    const bool goes_on = interval.phase == Phase::Copy && count >= 2 &&
                         joined[count - 2].phase == Phase::Copy &&
                         joined[count - 2].micro_batch == interval.micro_batch &&
                         joined[count - 1].phase == Phase::Wait &&
                         interval.start_ns - joined[count - 2].end_ns < kShortestWaitNs;
    if (goes_on) {
      joined.pop_back();
      joined.back().end_ns = interval.end_ns;
    } else {
      joined.push_back(interval);
    }
  }
  return joined;
}

// Returns the same set of points as disjoint spans in order.
std::vector<Span> merged(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end());
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (span.second <= span.first) continue;
    if (!result.empty() && span.first <= result.back().second) {
      result.back().second = std::max(result.back().second, span.second);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

}  // namespace

double RecordedStep::phase_s(Phase phase) const {
  std::int64_t total_ns = 0;
  for (const PhaseInterval& interval : intervals) {
    if (interval.phase == phase) total_ns += interval.end_ns - interval.start_ns;
  }
  return seconds(total_ns);
}

void StepRecorder::begin_block() {
  steps_.clear();
  current_ = {};
  open_ = false;
  micro_batch_ = 0;
  current_.start_ns = moment();
}

void StepRecorder::begin_micro_batch(std::int32_t micro_batch) {
  micro_batch_ = micro_batch;
  if (progress_ != nullptr) progress_->micro_batch.store(micro_batch, std::memory_order_relaxed);
}

void StepRecorder::end_step() {
  leave();
  current_.end_ns = moment();
  const std::int64_t next_start_ns = current_.end_ns;
  steps_.push_back(std::move(current_));
  current_ = {};
  current_.start_ns = next_start_ns;
  micro_batch_ = 0;
  if (progress_ != nullptr) progress_->step.fetch_add(1, std::memory_order_relaxed);
  publish(launch::Activity::Idle);
}

void StepRecorder::end_block() {
  if (timeline_ != nullptr) resolve_marks();
  for (RecordedStep& step : steps_) step.intervals = with_joined_copies(step.intervals);
}

void StepRecorder::resolve_marks() {
  const std::vector<std::int64_t> moments_ns =
      timeline_->reached([this] { publish(launch::Activity::Wait); });
  const auto resolve = [&](std::int64_t& mark) {
    mark = moments_ns.at(static_cast<std::size_t>(mark));
  };
  for (RecordedStep& step : steps_) {
    resolve(step.start_ns);
    resolve(step.end_ns);
    for (PhaseInterval& interval : step.intervals) {
      resolve(interval.start_ns);
      resolve(interval.end_ns);
    }
  }
}

std::int64_t StepRecorder::moment() {
  return timeline_ == nullptr ? clock_.now_ns() : timeline_->mark();
}

void StepRecorder::enter(Phase phase) {
  const std::int64_t now = moment();
  if (open_) current_.intervals.back().end_ns = now;
  current_.intervals.push_back({phase, micro_batch_, now, now});
  open_ = true;
  publish(activity_of(phase));
}

void StepRecorder::leave() {
  if (!open_) return;
  current_.intervals.back().end_ns = moment();
  open_ = false;
}

std::optional<Phase> StepRecorder::phase() const {
  if (!open_) return std::nullopt;
  return current_.intervals.back().phase;
}

void StepRecorder::publish(launch::Activity activity) {
  if (progress_ == nullptr) return;
  progress_->activity.store(activity, std::memory_order_relaxed);
  progress_->changed_ns.store(clock_.now_ns(), std::memory_order_relaxed);
}

std::int64_t exposed_ns(std::vector<Span> communication, std::vector<Span> waiting) {
  const std::vector<Span> busy = merged(std::move(communication));
  const std::vector<Span> idle = merged(std::move(waiting));
  std::int64_t total_ns = 0;
  auto a = busy.begin();
  auto b = idle.begin();
  while (a != busy.end() && b != idle.end()) {
    const std::int64_t start = std::max(a->first, b->first);
    const std::int64_t end = std::min(a->second, b->second);
    if (end > start) total_ns += end - start;
    if (a->second < b->second) {
      ++a;
    } else {
      ++b;
    }
  }
  return total_ns;
}

}  // namespace gradsync::measure
