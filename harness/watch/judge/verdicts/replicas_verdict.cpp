#include <algorithm>

#include "harness/watch/judge/verdicts/drift_verdict.h"
#include "harness/watch/judge/verdicts/rules.h"
#include "harness/watch/judge/verdicts/verdict_parts.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {
namespace {

// Returns whether a wrapper reported replicas: names and collectives of groups do not suffice.
bool replicas_reported_by_wrapper(const RankEvents& rank) {
  return std::ranges::any_of(rank.groups, [](const Group& group) {
    return group.is_told && group.role == GroupRole::Replicate;
  });
}

// Whether a rank holds more until the end of a step: a reduction in a wider type than gradients
// have.
bool costs_memory(const RankEvents& rank) {
  return std::ranges::any_of(rank.held, [](const auto& model) {
    return model.second.reduced_bytes > model.second.shard_bytes;
  });
}

// Whether a model of the step has a wrapper with this trait.
bool runs_under(bool Wrapper::*trait, const StepCounts& step) {
  return std::ranges::any_of(step.step->micro_batches, [&](const MicroBatch& micro_batch) {
    return std::ranges::any_of(micro_batch.forwards, [&](const Event* forward) {
      return wrapper_named(forward->name).*trait;
    });
  });
}

bool reduces_replicas_at_once(const StepCounts& step) {
  return runs_under(&Wrapper::reduces_replicas_at_once, step);
}

// Says which flag had the backward that ends at `backward_ns` all-reduce. Returns whether one did.
bool blame_flag(Verdict& verdict, const RankEvents& rank, std::int64_t backward_ns) {
  const Event* all_reduce = last_flag_before(rank, kAllReduceFlag, backward_ns);
  if (all_reduce == nullptr) return false;
  if (all_reduce->detail == "true") {
    explain(verdict, Cause::AllReduceFlagOn, {.at = all_reduce});
    return true;
  }
  const Event* gradients = last_flag_before(rank, kGradientFlag, backward_ns);
  if (gradients == nullptr || gradients->start_ns < all_reduce->start_ns) return false;
  explain(verdict, Cause::AllReduceFlagUndone, {.at = gradients, .change_at = all_reduce});
  return true;
}

void explain_replicas(Verdict& verdict, const RankEvents& rank, const StepCounts& example) {
  const MicroBatch& micro_batch = *example.replicas.excess.front();
  const Event* forward = micro_batch.forwards.front();
  if (reduces_replicas_at_once(example)) {
    return explain(verdict, Cause::Fsdp1AllReducesEach, {.at = forward});
  }
  if (blame_flag(verdict, rank, micro_batch.backwards.front()->end_ns)) return;
  explain(verdict, Cause::AllReduceFlagNotCalled,
          {.at = forward, .other_change = costs_memory(rank)});
}

VerdictNumbers numbers_of(const StepCounts& example) {
  const ReplicaCounts& replicas = example.replicas;
  return {.micro_batches = replicas.micro_batches,
          .synchronized = replicas.synchronized,
          .behind_the_last = replicas.behind_the_last,
          .are_kept_back = runs_under(&Wrapper::keeps_back, example)};
}

Verdict judge_too_many(const RankEvents& rank, const UsualStep& usual) {
  Verdict verdict = told(VerdictKind::ReplicasMoreThanOnce, numbers_of(*usual.example));
  verdict.fails = replicas_reported_by_wrapper(rank) && usual.example->models_are_known &&
                  !costs_memory(rank) && !reduces_replicas_at_once(*usual.example);
  explain_replicas(verdict, rank, *usual.example);
  return verdict;
}

// Explains why replicas are not synchronized behind the last micro-batch: fully_shard keeps those
// gradients and adds them to the next all-reduce.
void explain_missing(Verdict& verdict, const RankEvents& rank, const StepCounts& example,
                     const char* which) {
  const Event* flag = last_flag_before(rank, kAllReduceFlag, example.step->end_ns);
  if (flag == nullptr || flag->detail != "false") return;
  explain(verdict, Cause::AllReduceFlagOff, {.at = flag, .which = which});
  verdict.fails = replicas_reported_by_wrapper(rank) && example.models_are_known;
}

Verdict come_late(const RankEvents& rank, const StepCounts& example) {
  Verdict verdict = told(VerdictKind::ReplicasTooEarly, numbers_of(example));
  explain_missing(verdict, rank, example, "the last micro-batch");
  return verdict;
}

Verdict never_come(const RankEvents& rank, const StepCounts& example) {
  Verdict verdict = told(VerdictKind::ReplicasNever, numbers_of(example));
  explain_missing(verdict, rank, example, "every micro-batch");
  return verdict;
}

}  // namespace

std::optional<Verdict> judge_replicas(const RankEvents& rank, const Steps& steps,
                                      const Counted& judged, const UsualStep& usual) {
  const ReplicaCounts& replicas = usual.example->replicas;
  if (replicas.micro_batches == 0) return std::nullopt;
  const auto holds_in_most = [&](auto condition) {
    return most(usual.all, [&](const StepCounts* step) { return condition(step->replicas); });
  };
  if (replicas.synchronized == 0) {
    if (averages_by_hand(rank, steps)) return std::nullopt;
    const bool is_never = std::ranges::none_of(
        judged, [](const StepCounts* step) { return step->replicas.synchronized > 0; });
    return is_never ? std::optional(never_come(rank, *usual.example)) : std::nullopt;
  }
  if (replicas.behind_the_last > 0) {
    const bool is_usual =
        holds_in_most([](const ReplicaCounts& counts) { return counts.behind_the_last > 0; });
    return is_usual ? std::optional(come_late(rank, *usual.example)) : std::nullopt;
  }
  if (!replicas.excess.empty()) {
    const bool is_usual =
        holds_in_most([](const ReplicaCounts& counts) { return !counts.excess.empty(); });
    return is_usual ? std::optional(judge_too_many(rank, usual)) : std::nullopt;
  }
  if (replicas.micro_batches < 2) return std::nullopt;
  return told(VerdictKind::ReplicasOncePerStep, numbers_of(*usual.example));
}

}  // namespace gradsync::watch
