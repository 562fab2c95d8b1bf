#include "harness/watch/judge/steps/usual_step.h"

#include <algorithm>
#include <map>
#include <utility>

namespace gradsync::watch {
namespace {

constexpr int kOften = 2;  // so many synchronizations of a step, or more: too many

// Those that have the commonest `shape`, in order; of equally common ones the least.
template <typename Shape>
Counted most_common(const Counted& steps, Shape shape) {
  std::map<decltype(shape(steps.front())), Counted> by_shape;
  for (const StepCounts* step : steps) by_shape[shape(step)].push_back(step);
  return std::max_element(
             by_shape.begin(), by_shape.end(),
             [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); })
      ->second;
}

// The last of those whose collectives most of `steps` have.
const StepCounts* most_alike(const Counted& steps) {
  return most_common(steps, [](const StepCounts* step) { return step->collectives; }).back();
}

}  // namespace

Counted not_skipped(const std::vector<StepCounts>& counts) {
  Counted kept;
  for (const StepCounts& step : counts) {
    if (!step.step->is_skipped) kept.push_back(&step);
  }
  return kept;
}

std::optional<UsualStep> usual_step(const std::vector<StepCounts>& counts) {
  Counted judged = not_skipped(counts);
  if (judged.empty()) return std::nullopt;
  if (judged.size() > 1) judged.erase(judged.begin());
  const auto is_wrapped = [](const StepCounts* step) { return step->micro_batches > 0; };
  if (std::any_of(judged.begin(), judged.end(), is_wrapped)) {
    std::erase_if(judged, [&](const StepCounts* step) { return !is_wrapped(step); });
  }
  // In both, a tie goes to the value with the fewest synchronizations: a tie accuses no job.
  judged = most_common(judged,
                       [](const StepCounts* step) { return std::min(step->synchronized, kOften); });
  judged = most_common(judged, [](const StepCounts* step) {
    return std::pair(step->synchronized, step->micro_batches);
  });
  const StepCounts& any = *judged.front();
  return UsualStep{any.micro_batches, any.synchronized, judged, most_alike(judged)};
}

}  // namespace gradsync::watch
