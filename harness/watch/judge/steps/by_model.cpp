#include <algorithm>
#include <utility>

#include "harness/watch/judge/steps/reductions.h"

namespace gradsync::watch {
namespace {

// Joins `models` with those of `all` that have one in common with them.
void join(std::vector<Models>& all, Models models) {
  const auto shares = [&](const Models& other) { return share_a_model(other, models); };
  auto first = std::ranges::find_if(all, shares);
  if (first == all.end()) {
    all.push_back(std::move(models));
    return;
  }
  for (auto other = std::next(first); other != all.end();) {
    if (!shares(*other)) {
      ++other;
      continue;
    }
    first->merge(*other);
    other = all.erase(other);
  }
  first->merge(models);
}

std::vector<Models> models_that_run_together(const Steps& steps) {
  std::vector<Models> all;
  for (const Step& step : steps.steps) {
    for (const MicroBatch& micro_batch : step.micro_batches) {
      if (is_wrapped(micro_batch)) join(all, models_of(micro_batch));
    }
  }
  return all;
}

ModelSteps steps_of(const Models& models, const Steps& steps) {
  ModelSteps of_models{models, steps};
  for (Step& step : of_models.steps.steps) {
    std::erase_if(step.micro_batches, [&](const MicroBatch& micro_batch) {
      return !share_a_model(models, models_of(micro_batch));
    });
  }
  std::erase_if(of_models.steps.steps, [](const Step& step) { return step.micro_batches.empty(); });
  return of_models;
}

}  // namespace

std::vector<ModelSteps> by_model(const Steps& steps) {
  std::vector<ModelSteps> all;
  for (const Models& models : models_that_run_together(steps)) {
    if (models.contains(0)) return {};
    all.push_back(steps_of(models, steps));
  }
  return all;
}

}  // namespace gradsync::watch
