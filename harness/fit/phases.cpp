#include "harness/fit/phases.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradsync::fit {
namespace {

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return "forward";
    case Phase::Backward:
      return "backward";
    case Phase::Optimizer:
      return "optimizer";
    default:
      return "between phases";
  }
}

// Returns how many spans began before the moment.
template <typename Spans>
std::size_t begun(const Spans& spans, std::int64_t time_ns) {
  return static_cast<std::size_t>(
      std::ranges::partition_point(spans,
                                   [&](const auto& span) { return span.start_ns <= time_ns; }) -
      spans.begin());
}

template <typename Spans>
bool is_within_last(const Spans& spans, std::size_t count, std::int64_t time_ns) {
  return count > 0 && (spans[count - 1].end_ns >= time_ns || spans[count - 1].end_ns == 0);
}

}  // namespace

// Checkpointing runs backwards within one.
bool Phases::is_within_a_backward(const Span& span) const {
  return !backwards_.empty() && span.start_ns < backwards_.back().end_ns;
}

Phases::Phases(const watch::RankEvents& rank) {
  for (const watch::Event& event : rank.events) {
    const Span span{event.start_ns, event.end_ns};
    const bool is_backward = event.kind == watch::EventKind::Backward;
    if (is_backward && !is_within_a_backward(span)) backwards_.push_back(span);
    if (event.kind == watch::EventKind::OptimizerStep) optimizers_.push_back(span);
    if (event.kind == watch::EventKind::Forward) forwards_.push_back(span);
  }
}

StepPlace Phases::at(std::int64_t time_ns) const {
  const std::size_t steps = begun(optimizers_, time_ns);
  const std::size_t runs = begun(backwards_, time_ns);
  const std::int64_t step_began_ns = steps == 0 ? 0 : optimizers_[steps - 1].start_ns;
  const std::size_t before = steps == 0 ? 0 : begun(backwards_, step_began_ns);
  StepPlace place{static_cast<int>(steps) + 1, static_cast<int>(runs - before) + 1, Phase::Forward};
  if (is_within_last(optimizers_, steps, time_ns)) {
    const std::size_t earlier = steps < 2 ? 0 : begun(backwards_, optimizers_[steps - 2].start_ns);
    return {static_cast<int>(steps), static_cast<int>(before - earlier), Phase::Optimizer};
  }
  if (is_within_last(backwards_, runs, time_ns)) {
    --place.micro_batch;
    place.phase = Phase::Backward;
    return place;
  }
  const std::size_t computed = begun(forwards_, time_ns);
  if (is_within_last(forwards_, computed, time_ns)) return place;
  if (steps == 0 && runs == 0 && computed == 0 && !forwards_.empty()) {
    return {0, 0, Phase::BeforeTraining};
  }
  return place;
}

std::string words_of(const StepPlace& place) {
  if (place.phase == Phase::BeforeTraining) return "before training";
  return fmt::format("step {}, micro-batch {}, {}", place.step, place.micro_batch,
                     name_of(place.phase));
}

}  // namespace gradsync::fit
