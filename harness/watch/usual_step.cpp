#include "harness/watch/usual_step.h"

#include <algorithm>
#include <map>
#include <utility>

namespace gradsync::watch {
namespace {

// The last of those whose collectives most of `steps` have.
const StepCounts* most_alike(const Counted& steps) {
  std::vector<std::pair<const StepCounts*, int>> kinds;  // the last of each, and how many
  for (const StepCounts* step : steps) {
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) {
      return kind.first->collectives == step->collectives;
    });
    if (known == kinds.end()) {
      kinds.emplace_back(step, 1);
    } else {
      *known = {step, known->second + 1};
    }
  }
  return std::max_element(kinds.begin(), kinds.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
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
  std::map<std::pair<int, int>, Counted> by_shape;
  for (const StepCounts* step : judged) {
    by_shape[{step->synchronized, step->micro_batches}].push_back(step);
  }
  // Of shapes that are equally common the one that synchronizes least: a tie accuses nobody.
  const auto usual = std::max_element(
      by_shape.begin(), by_shape.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return UsualStep{usual->first.second, usual->first.first, usual->second,
                   most_alike(usual->second)};
}

}  // namespace gradsync::watch
