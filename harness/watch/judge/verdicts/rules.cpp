#include "harness/watch/judge/verdicts/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>

#include "harness/base/errors.h"
#include "harness/base/units.h"
#include "harness/watch/judge/verdicts/drift_verdict.h"
#include "harness/watch/judge/verdicts/verdict_parts.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {
namespace {

// What the rules look at. Below the rule on steps there is a usual one.
struct Seen {
  Seen(const RankEvents& events, const Steps& cut, const std::vector<StepCounts>& counts)
      : rank(events), steps(cut), judged(not_skipped(counts)), usual(usual_step(counts)) {
    std::ranges::copy_if(judged, std::back_inserter(wrapped),
                         [](const StepCounts* step) { return step->micro_batches > 0; });
    never = std::ranges::count_if(wrapped,
                                  [](const StepCounts* step) { return step->synchronized == 0; });
  }

  const RankEvents& rank;
  const Steps& steps;
  Counted judged;
  std::optional<UsualStep> usual;
  Counted wrapped;           // of the judged, those that ran a wrapped model
  std::ptrdiff_t never = 0;  // of these, those that do not synchronize
};

using Found = std::optional<Verdict>;

// What the process asked of NCCL past torch's c10d, or ran by launching a CUDA graph.
OpSums calls_of_nccl(const RankEvents& rank) {
  OpSums calls;
  for (const Event& event : rank.events) {
    if (has_communicated(event) && has_word(event, kNcclCall)) add(calls, event);
  }
  return calls;
}

// "12 all_reduce (48.0 KiB), 2 send (of unknown size)"
std::string listed(const OpSums& sums) {
  std::vector<std::string> texts;
  for (const auto& [op, sum] : sums) {
    const std::string bytes =
        sum.bytes ? format_bytes(static_cast<double>(*sum.bytes)) : "of unknown size";
    texts.push_back(fmt::format("{} {} ({})", sum.count, op, bytes));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool has_collective_of_unknown_group(const RankEvents& rank) {
  return std::ranges::any_of(rank.events, [](const Event& event) {
    return event.kind == EventKind::Collective && event.object == 0;
  });
}

// Returns what a file without a whole step lacks.
Cause steps_lacking(const RankEvents& rank) {
  if (!has_event(rank, EventKind::OptimizerStep)) return Cause::OptimizerNotTold;
  return has_event(rank, EventKind::Backward) ? Cause::WholeStepNotTold : Cause::BackwardNotTold;
}

// Returns whether only models without shards ran whose wrapper keeps gradients back while
// synchronization is off. Such a wrapper communicates nothing when it wraps.
bool is_held_back(const StepCounts& step) {
  return std::ranges::all_of(step.step->micro_batches, [](const MicroBatch& micro_batch) {
    return micro_batch.is_unsynced &&
           std::ranges::all_of(micro_batch.forwards, [](const Event* forward) {
             const Wrapper wrapper = wrapper_named(forward->name);
             return wrapper.keeps_back && !wrapper.is_sharded;
           });
  });
}

Found one_of_several_processes(const Seen& seen) {
  const RankEvents& rank = seen.rank;
  if (rank.world_size == 0 && rank.is_imported()) return not_in_file(Cause::WorldSizeNotTold);
  if (rank.world_size > 1 || rank.peers.empty()) return std::nullopt;
  return not_recognised(Cause::ProcessesWithoutGroup, {.given = rank.peers});
}

Found one_process(const Seen& seen) {
  return seen.rank.world_size > 1 ? Found() : told(VerdictKind::OneProcess);
}

// Before the rule on steps: a graph may have the whole step.
Found in_graphs(const Seen& seen) {
  return seen.rank.graphs_may_communicate ? Found(not_in_file(Cause::CudaGraphsNotTold))
                                          : std::nullopt;
}

Found no_steps(const Seen& seen) {
  if (!seen.judged.empty()) return std::nullopt;
  if (const OpSums calls = calls_of_nccl(seen.rank); !calls.empty()) {
    return not_recognised(Cause::NcclWithoutSteps, {.given = listed(calls)});
  }
  return seen.rank.is_imported() ? not_in_file(steps_lacking(seen.rank))
                                 : told(VerdictKind::NoSteps);
}

Found closures(const Seen& seen) {
  const bool repeats =
      most(seen.judged, [](const StepCounts* step) { return step->step->repeats_closure; });
  return repeats ? Found(not_recognised(Cause::RepeatsClosure)) : std::nullopt;
}

Found not_in_the_file(const Seen& seen) {
  if (seen.rank.is_imported() && has_collective_of_unknown_group(seen.rank)) {
    return not_in_file(Cause::GroupsNotTold);
  }
  if (seen.rank.lacks_ranges) return not_in_file(Cause::TimesNotTold);
  return seen.rank.runs_ahead ? Found(not_in_file(Cause::OrderNotTold)) : std::nullopt;
}

Found unwrapped(const Seen& seen) {
  if (seen.usual->example->is_by_bytes) {
    return judge_by_bytes(seen.rank, seen.steps, seen.wrapped, *seen.usual);
  }
  if (seen.usual->micro_batches > 0) return std::nullopt;
  return judge_unwrapped(seen.rank, seen.steps, seen.judged);
}

Found no_collective(const Seen& seen) {
  if (seen.rank.is_imported() || has_event(seen.rank, EventKind::Collective) ||
      is_held_back(*seen.usual->example)) {
    return std::nullopt;
  }
  return not_recognised(Cause::NoCollective);
}

Found models_take_turns(const Seen& seen) {
  const bool take_turns =
      most(seen.judged, [](const StepCounts* step) { return step->step->is_interleaved; });
  return take_turns ? Found(not_recognised(Cause::ModelsTakeTurns)) : std::nullopt;
}

Found replayed_beside(const Seen& seen) {
  const Event* forward = seen.usual->example->step->replayed_beside;
  const bool are_replayed = forward != nullptr && most(seen.usual->all, [](const StepCounts* step) {
                              return step->step->replayed_beside != nullptr;
                            });
  return are_replayed ? Found(not_recognised(Cause::ReplayedBeside, {.at = forward}))
                      : std::nullopt;
}

Found left_behind(const Seen& seen) {
  const StepCounts& example = *seen.usual->example;
  const bool is_left =
      example.left_behind != nullptr &&
      most(seen.usual->all, [](const StepCounts* step) { return step->left_behind != nullptr; });
  return is_left ? Found(not_recognised(Cause::LeftBehind, {.at = example.left_behind}))
                 : std::nullopt;
}

Found steps_before_reduction(const Seen& seen) {
  const Event* optimizer = seen.usual->example->steps_too_soon;
  const bool step_too_soon =
      optimizer != nullptr &&
      most(seen.usual->all, [](const StepCounts* step) { return step->steps_too_soon != nullptr; });
  if (!step_too_soon || has_event(seen.rank, EventKind::CommHook)) return std::nullopt;
  Verdict verdict = told(VerdictKind::Never);
  explain(verdict, Cause::StepsBeforeReduction, {.at = optimizer});
  verdict.fails = true;
  return verdict;
}

Found never(const Seen& seen) {
  if (seen.never < std::ssize(seen.wrapped)) return std::nullopt;
  return judge_never(seen.rank, seen.steps, *seen.usual);
}

Found too_early(const Seen& seen) {
  const auto is_too_early = [](const StepCounts* step) { return step->behind_the_last > 0; };
  const UsualStep& usual = *seen.usual;
  if (usual.synchronized == 0 || !is_too_early(usual.example) || !most(usual.all, is_too_early)) {
    return std::nullopt;
  }
  return judge_too_early(seen.rank, seen.steps, usual);
}

Found too_often(const Seen& seen) {
  return seen.usual->synchronized > 1 ? Found(judge_excess(seen.rank, *seen.usual)) : std::nullopt;
}

Found some_steps_never(const Seen& seen) {
  if (seen.never > 0) return judge_some_never(seen.rank, seen.steps, seen.wrapped);
  if (seen.rank.is_imported() && has_event(seen.rank, EventKind::CommHook) &&
      averages_by_hand(seen.rank, seen.steps)) {
    return not_in_file(Cause::HookNotTold);
  }
  return std::nullopt;
}

Found once_per_step(const Seen& seen) {
  return judge_once(seen.rank, seen.wrapped);
}

constexpr std::array kRules{one_of_several_processes,
                            one_process,
                            in_graphs,
                            no_steps,
                            closures,
                            not_in_the_file,
                            unwrapped,
                            no_collective,
                            models_take_turns,
                            replayed_beside,
                            left_behind,
                            steps_before_reduction,
                            never,
                            too_early,
                            too_often,
                            some_steps_never,
                            once_per_step};

}  // namespace

Verdict first_verdict(const RankEvents& rank, const Steps& steps,
                      const std::vector<StepCounts>& counts) {
  const Seen seen(rank, steps, counts);
  for (const auto& rule : kRules) {
    if (Found found = rule(seen)) return *std::move(found);
  }
  throw InternalError("no rule on a job applies");
}

}  // namespace gradsync::watch
