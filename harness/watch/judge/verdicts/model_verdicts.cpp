#include "harness/watch/judge/verdicts/model_verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/watch/judge/steps/reductions.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {
namespace {

bool needs_its_own_optimizer(VerdictKind kind) {
  return kind == VerdictKind::SomeStepsNever || kind == VerdictKind::TooEarly ||
         kind == VerdictKind::ReplicasTooEarly;
}

// From the worst: to be changed, to be thought about, not known, good.
int rank_of(const Verdict& verdict) {
  if (verdict.fails) return 0;
  if (verdict.kind == VerdictKind::OncePerStep) return 3;
  return is_unjudged(verdict.kind) ? 2 : 1;
}

ModelVerdict verdict_on(const RankEvents& rank, const Steps& steps) {
  const Event& forward = *steps.steps.front().micro_batches.front().forwards.front();
  Verdict verdict = judge(rank, steps, count_steps(steps)).front();
  if (needs_its_own_optimizer(verdict.kind)) {
    verdict = not_recognised(Cause::OptimizerNotKnown);
  }
  return {forward.name, forward.file, forward.line, std::move(verdict)};
}

}  // namespace

std::vector<ModelVerdict> judge_models(const RankEvents& rank, const Steps& steps) {
  std::vector<ModelVerdict> verdicts;
  const std::vector<ModelSteps> models = by_model(steps);
  if (models.size() < 2) return verdicts;
  for (const ModelSteps& of_model : models) verdicts.push_back(verdict_on(rank, of_model.steps));
  std::ranges::stable_sort(verdicts, {},
                           [](const ModelVerdict& model) { return rank_of(model.verdict); });
  return verdicts;
}

void put_worst_first(std::vector<Verdict>& verdicts, const std::vector<ModelVerdict>& models) {
  if (models.empty() || !models.front().verdict.fails) return;
  if (verdicts.front().kind != VerdictKind::OncePerStep) return;
  verdicts.front() = models.front().verdict;
  verdicts.front().sentence = model_text(models.front()) + ": " + verdicts.front().sentence;
}

std::string model_text(const ModelVerdict& model) {
  const std::string place = place_text(model.file, model.line);
  return place.empty() ? model.wrapper : fmt::format("{} of {}", model.wrapper, place);
}

}  // namespace gradsync::watch
