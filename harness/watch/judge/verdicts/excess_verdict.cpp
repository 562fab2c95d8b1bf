#include <algorithm>

#include "harness/watch/judge/verdicts/rules.h"
#include "harness/watch/judge/verdicts/verdict_parts.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {

namespace {

// Backward was inside a no_sync that did not hold its forward.
const Event* misplaced_no_sync(const MicroBatch& micro_batch) {
  return micro_batch.is_unsynced || micro_batch.no_sync_at_forward != nullptr
             ? nullptr
             : micro_batch.no_sync_at_backward;
}

// Forward was inside a no_sync, of another model.
const Event* foreign_no_sync(const MicroBatch& micro_batch) {
  return micro_batch.is_unsynced ? nullptr : micro_batch.no_sync_at_forward;
}

// A forward that was not told to keep still, within one that was.
const Event* inner_not_told(const MicroBatch& micro_batch) {
  const auto is_told = [](const Event* forward) { return has_word(*forward, "no_sync"); };
  if (!std::ranges::all_of(micro_batch.forwards, is_told)) return nullptr;
  const auto found = std::ranges::find_if_not(micro_batch.inner_forwards, is_told);
  return found == micro_batch.inner_forwards.end() ? nullptr : *found;
}

// A forward before one under no_sync, of the same model, and outside of it: DDP's forward arms the
// backward that comes next, whichever that is of.
const Event* arming_forward(const MicroBatch& micro_batch) {
  const auto& forwards = micro_batch.forwards;
  if (forwards.size() < 2 || !has_word(*forwards.back(), "no_sync")) return nullptr;
  for (const Event* forward : forwards) {
    const bool is_of_it = forward->object == forwards.back()->object;
    if (is_of_it && !has_word(*forward, "no_sync")) return forward;
  }
  return nullptr;
}

// Why a wrapper did that has a flag in place of no_sync.
void explain_flag(Verdict& verdict, const RankEvents& rank, const MicroBatch& micro_batch) {
  const Event* flag = last_flag_before(rank, kGradientFlag, micro_batch.backwards.front()->end_ns);
  if (flag == nullptr) {
    explain(verdict, Cause::GradientFlagNotCalled, {.at = micro_batch.forwards.front()});
  } else {
    const bool is_on = flag->detail == "true";
    explain(verdict, is_on ? Cause::GradientFlagOn : Cause::GradientFlagBehindForward,
            {.at = flag});
  }
}

// Why DDP synchronized too often, by the first micro-batch of the example that tells it.
void explain_excess(Verdict& verdict, const RankEvents& rank, const StepCounts& example) {
  for (const MicroBatch* micro_batch : example.excess_micro_batches) {
    if (const Event* arming = arming_forward(*micro_batch)) {
      return explain(verdict, Cause::ForwardOutsideNoSync, {.at = arming});
    }
    if (const Event* inner = inner_not_told(*micro_batch)) {
      say_inside(verdict, *inner);
      const Event* no_sync = micro_batch->no_sync_at_forward;
      return explain(verdict, Cause::NoSyncNotInside, {.at = no_sync != nullptr ? no_sync : inner});
    }
    if (const Event* misplaced = misplaced_no_sync(*micro_batch)) {
      return explain(verdict, Cause::NoSyncAroundBackward, {.at = misplaced});
    }
    if (const Event* foreign = foreign_no_sync(*micro_batch)) {
      return explain(verdict, Cause::NoSyncOfAnotherModel, {.at = foreign});
    }
    if (micro_batch->is_unsynced) return explain(verdict, Cause::SynchronizesUnderNoSync);
  }
  const MicroBatch& first = *example.excess_micro_batches.front();
  const Event& forward = *first.forwards.front();
  if (rank.is_imported()) return explain(verdict, Cause::NoNoSyncAroundForward);
  if (wrapper_named(forward.name).is_told_by_flag) return explain_flag(verdict, rank, first);
  explain(verdict, Cause::NoNoSync, {.at = &forward});
}

Verdict judge_fsdp(const UsualStep& usual) {
  const StepCounts& example = *usual.example;
  std::int64_t scatters = 0;
  for (const auto& [op, sum] : example.collectives) {
    if (op.find("reduce_scatter") != std::string::npos) scatters += sum.count;
  }
  Verdict verdict = told(VerdictKind::FsdpEveryMicroBatch,
                         {.micro_batches = usual.micro_batches,
                          .synchronized = usual.synchronized,
                          .reductions = scatters > 0 ? scatters : example.reductions,
                          .are_scatters = scatters > 0});
  explain(verdict, Cause::ShardsSaveMemory,
          {.at = example.excess_micro_batches.front()->forwards.front()});
  return verdict;
}

}  // namespace

Verdict judge_excess(const RankEvents& rank, const UsualStep& usual) {
  const StepCounts& example = *usual.example;
  if (does_not_add_up(usual)) return judge_cleared(example);
  if (example.excess_micro_batches.empty()) {
    return not_recognised(Cause::SharedMicroBatches);
  }
  if (example.has_shards) return judge_fsdp(usual);
  const VerdictNumbers numbers{.micro_batches = usual.micro_batches,
                               .synchronized = usual.synchronized,
                               .models_are_known = example.models_are_known,
                               .are_replayed = example.excess_micro_batches.front()->is_replayed};
  if (!example.models_are_known && rank.is_imported()) {
    return not_in_file(Cause::OneModelNotTold, {}, numbers);
  }
  Verdict verdict = told(VerdictKind::MoreThanOnce, numbers);
  if (!example.models_are_known) {
    explain(verdict, Cause::ModelsNotKnown);
    return verdict;
  }
  verdict.fails = true;
  explain_excess(verdict, rank, example);
  return verdict;
}

// DDP arranges its buckets in the first step, which tells nothing about the others.
Verdict judge_once(const RankEvents& rank, const Counted& wrapped) {
  Counted more_often;
  for (const StepCounts* step : wrapped) {
    const bool may_be_meant = step->has_shards || is_cleared_between(step);
    if (step == wrapped.front() || may_be_meant || !step->models_are_known) continue;
    if (!step->excess_micro_batches.empty()) more_often.push_back(step);
  }
  const auto may_be_another = [&](const StepCounts* step) {
    const bool is_one = step->models_are_known && !rank.models_are_by_size;
    return step != wrapped.front() && !is_one && !step->excess_micro_batches.empty();
  };
  if (rank.is_imported() && std::ranges::any_of(wrapped, may_be_another)) {
    return not_in_file(Cause::OneModelOfStepsNotTold);
  }
  if (more_often.empty()) return told(VerdictKind::OncePerStep);
  Verdict verdict =
      told(VerdictKind::OncePerStep, {.steps = more_often.size(), .of_steps = wrapped.size() - 1});
  explain_excess(verdict, rank, *more_often.back());
  return verdict;
}

}  // namespace gradsync::watch
