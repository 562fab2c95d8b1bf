// The verdict on a job in which no model of a known wrapper ran: bytes tell its reductions.
#include <algorithm>
#include <limits>

#include "harness/watch/judge/replicas.h"
#include "harness/watch/judge/steps/nesting.h"
#include "harness/watch/judge/steps/unwrapped.h"
#include "harness/watch/judge/verdicts/drift_verdict.h"
#include "harness/watch/judge/verdicts/rules.h"
#include "harness/watch/judge/verdicts/verdict_parts.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {
namespace {

bool is_never(const StepCounts* step) {
  return step->synchronized == 0;
}

bool is_too_early(const StepCounts* step) {
  return step->behind_the_last > 0;
}

// Whether the job gives parameters to collectives, and no gradients but those of an outer
// optimizer: it averages the former.
bool averages_parameters(const RankEvents& rank) {
  return !rank.exchanges.empty() && std::ranges::none_of(rank.exchanges, moves_gradients);
}

bool communicates_in_backward(const StepCounts* step) {
  return std::ranges::any_of(step->step->micro_batches, [](const MicroBatch& micro_batch) {
    return std::ranges::any_of(micro_batch.in_backward, [](const Event* collective) {
      return may_be_of_gradients(*collective);
    });
  });
}

// The job's own call that a reduction was issued in; else the backward before it.
const Event* place_of(const RankEvents& rank, const MicroBatch& micro_batch) {
  const Event* backward = micro_batch.backwards.front();
  if (micro_batch.of_gradients.empty()) return backward;
  const Event& reduction = *micro_batch.of_gradients.front();
  const auto call = std::ranges::find_if(rank.events, [&](const Event& event) {
    return event.kind == EventKind::Call && contains(event, reduction);
  });
  return call == rank.events.end() ? backward : &*call;
}

// All but the first micro-batch of the model that synchronizes most often.
std::vector<const MicroBatch*> later_ones(const StepCounts& example) {
  std::vector<const MicroBatch*> later;
  const Models models = models_of(*example.excess_micro_batches.front());
  for (const MicroBatch& micro_batch : example.step->micro_batches) {
    if (models_of(micro_batch) == models) later.push_back(&micro_batch);
  }
  later.erase(later.begin());
  return later;
}

Verdict judge_none(const RankEvents& rank, const Steps& steps, const UsualStep& usual) {
  if (communicates_in_backward(usual.example)) return not_recognised(Cause::UnknownWrapper);
  if (averages_by_hand(rank, steps)) return not_recognised(Cause::UnwrappedAveragedByHand);
  Verdict verdict = told(VerdictKind::Never, {.micro_batches = usual.micro_batches});
  const Event* wrap = last_before(rank, EventKind::Wrap, std::numeric_limits<std::int64_t>::max());
  if (wrap != nullptr && !has_event(rank, EventKind::Forward)) {
    explain(verdict, Cause::WrappersForwardNeverRan, {.at = wrap});
  } else {
    explain(verdict, Cause::NothingReduced,
            {.at = usual.example->step->micro_batches.back().backwards.front()});
  }
  verdict.fails = true;
  return verdict;
}

Verdict judge_early(const UsualStep& usual) {
  if (does_not_add_up(usual)) return judge_cleared(*usual.example);
  const StepCounts& example = *usual.example;
  Verdict verdict = told(VerdictKind::TooEarly, {.micro_batches = example.micro_batches,
                                                 .behind_the_last = example.behind_the_last});
  const MicroBatch& last = example.step->micro_batches.back();
  explain(verdict, Cause::ReducedTooEarly, {.at = last.backwards.front()});
  verdict.fails = adds_to_gradients(last);
  return verdict;
}

Verdict judge_often(const RankEvents& rank, const UsualStep& usual) {
  const StepCounts& example = *usual.example;
  const bool is_cleared = does_not_add_up(usual);
  if (is_cleared && example.step->clearings.front()->kind == EventKind::ZeroGrad) {
    return judge_cleared(example);
  }
  if (example.excess_micro_batches.empty()) return not_recognised(Cause::SharedMicroBatches);
  const VerdictNumbers numbers{.micro_batches = usual.micro_batches,
                               .synchronized = usual.synchronized,
                               .reductions = example.reductions};
  const auto later = later_ones(example);
  const auto are_all = [&](auto holds) {
    return std::ranges::all_of(later, [&](const MicroBatch* each) { return holds(*each); });
  };
  const Event* place = place_of(rank, *example.excess_micro_batches.front());
  const bool keeps_none = are_all(finds_no_gradients);
  if (is_cleared && !keeps_none) return judge_cleared(example);
  Verdict verdict =
      told(keeps_none ? VerdictKind::EveryMicroBatch : VerdictKind::MoreThanOnce, numbers);
  explain(verdict, keeps_none ? Cause::GradientsNotKept : Cause::ReducedBehindEach, {.at = place});
  verdict.fails = are_all(adds_to_gradients);
  return verdict;
}

}  // namespace

Verdict judge_by_bytes(const RankEvents& rank, const Steps& steps, const Counted& all,
                       const UsualStep& usual) {
  const auto never = std::ranges::count_if(all, is_never);
  if (never == std::ssize(all)) return judge_none(rank, steps, usual);
  // Outer steps of local SGD move as much as gradients, now and then.
  const bool is_rare = usual.synchronized == 0 || averages_parameters(rank);
  if (is_rare) return not_recognised(Cause::UnwrappedAveragedByHand);
  if (is_too_early(usual.example) && most(usual.all, is_too_early)) {
    return judge_early(usual);
  }
  if (usual.synchronized > 1) return judge_often(rank, usual);
  if (never > 0) return some_steps_never(all);
  return told(VerdictKind::OncePerStep);
}

}  // namespace gradsync::watch
