#include "harness/watch/judge/verdicts/drift_verdict.h"

#include <algorithm>
#include <limits>

#include "harness/watch/judge/verdicts/verdict_parts.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {
namespace {

// Collectives outside of backward that move no more than this in a step, or than half of the
// gradients where those are fewer, are taken for logging (a loss, a norm, a flag), not for an
// average of gradients or parameters made by hand. Larger: what is averaged in small parts passes
// for drift.
constexpr std::int64_t kLoggingBytes = 4096;
constexpr std::int64_t kEndOfTime = std::numeric_limits<std::int64_t>::max();

bool is_gather(const Event& collective) {
  return collective.name.find("gather") != std::string::npos;
}

// Which gathers may be of parameters, to average them; fewer bytes are results.
struct ParameterGathers {
  bool any = false;  // also of unknown size: the parameters' size is not known
  std::optional<std::int64_t> from_bytes = std::nullopt;  // all of them together; unset: none is
};

// Whether these can make ranks alike: by more than `more_than` bytes, or by collectives of unknown
// size. A barrier cannot. Who scatters what it reduces does so with gradients, however small.
bool may_average(const std::vector<const Event*>& collectives, std::int64_t more_than,
                 const ParameterGathers& gathers) {
  std::int64_t bytes = 0;
  std::int64_t gathered = 0;
  for (const Event* collective : collectives) {
    if (collective->name == "barrier") continue;
    if (is_gather(*collective)) {
      if (collective->bytes < 0 && gathers.any) return true;
      gathered += std::max<std::int64_t>(0, collective->bytes);
      continue;
    }
    const bool is_scatter = collective->name.find("reduce_scatter") != std::string::npos;
    if (collective->bytes < 0 || is_scatter) return true;
    bytes += collective->bytes;
  }
  const bool are_parameters =
      gathers.any || (gathers.from_bytes && gathered >= *gathers.from_bytes);
  return (are_parameters ? bytes + gathered : bytes) > more_than;
}

// Returns whether anything was exchanged outside of backward that can make ranks alike, however
// small.
bool exchanges_outside(const Steps& steps) {
  return std::ranges::any_of(steps.steps,
                             [](const Step& step) { return may_average(step.outside, 0, {}); });
}

// The last with a wrapped forward; null where there is none.
const MicroBatch* last_wrapped(const StepCounts& example) {
  const MicroBatch* last = nullptr;
  for (const MicroBatch& micro_batch : example.step->micro_batches) {
    if (!micro_batch.forwards.empty()) last = &micro_batch;
  }
  return last;
}

// Whether a backward reduces in a group of this rank alone.
bool reduces_alone(const Step& step) {
  return std::ranges::any_of(step.micro_batches, [](const MicroBatch& micro_batch) {
    return std::ranges::any_of(micro_batch.in_backward,
                               [](const Event* collective) { return collective->is_apart; });
  });
}

// Returns whether synchronization was seen to be switched off in the last micro-batch.
bool is_told_not_to(const StepCounts& example) {
  const MicroBatch* last = last_wrapped(example);
  return last != nullptr && last->is_unsynced;
}

// Returns whether the wrapper keeps back what the last micro-batch did not synchronize.
bool are_kept_back(const StepCounts& example) {
  const MicroBatch* last = last_wrapped(example);
  return last != nullptr && std::ranges::all_of(last->forwards, [](const Event* forward) {
           return wrapper_named(forward->name).keeps_back;
         });
}

bool is_pipelined_under_ddp(const MicroBatch& micro_batch) {
  return micro_batch.is_pipelined && !is_of_fsdp(micro_batch);
}

// Why the last micro-batch did not synchronize. `which`: those that did not, "every micro-batch".
void explain_never(Verdict& verdict, const RankEvents& rank, const StepCounts& example,
                   const char* which) {
  const MicroBatch* last = last_wrapped(example);
  if (last == nullptr) return;
  const Event* no_sync = last->no_sync_at_forward;
  if (no_sync != nullptr) {
    const bool is_mirrored = last->no_sync_at_backward == nullptr;
    return explain(verdict, is_mirrored ? Cause::NoSyncAroundForward : Cause::NoSyncAroundAll,
                   {.at = no_sync, .which = which, .other_change = is_pipelined_under_ddp(*last)});
  }
  const Event* flag = last_flag_before(rank, kGradientFlag, last->backwards.front()->end_ns);
  if (flag != nullptr && flag->detail == "false") {
    explain(verdict, Cause::GradientFlagOff, {.at = flag, .which = which});
  } else if (last->is_unsynced) {
    explain(verdict, Cause::WrapperFlagOff);
  }
}

}  // namespace

bool averages_by_hand(const RankEvents& rank, const Steps& steps) {
  // How large gradients are is in no file that others write.
  std::int64_t limit = rank.is_imported() ? 0 : kLoggingBytes;
  ParameterGathers gathers{.any = rank.is_imported()};
  const EventKind telling =
      has_event(rank, EventKind::Wrap) ? EventKind::Wrap : EventKind::Backward;
  for (const Event& event : rank.events) {
    if (event.kind != telling || event.bytes <= 0) continue;
    limit = std::min(limit, event.bytes / 2);
    const std::int64_t of_all_ranks = std::max(rank.world_size, 1) * event.bytes / 2;
    gathers.from_bytes = std::min(gathers.from_bytes.value_or(of_all_ranks), of_all_ranks);
  }
  const auto averages = [&](const std::vector<const Event*>& collectives) {
    return may_average(collectives, limit, gathers);
  };
  return averages(steps.closing) ||
         std::ranges::any_of(steps.steps, [&](const Step& step) { return averages(step.outside); });
}

Verdict judge_never(const RankEvents& rank, const Steps& steps, const UsualStep& usual) {
  if (const Event* hook = last_before(rank, EventKind::CommHook, kEndOfTime)) {
    return not_recognised(Cause::CommHook, {.at = hook});
  }
  if (averages_by_hand(rank, steps)) {
    return not_recognised(Cause::AveragedByHand);
  }
  if (reduces_alone(*usual.example->step)) {
    return not_recognised(Cause::ReducesAlone);
  }
  if (rank.is_imported() && !is_told_not_to(*usual.example)) {
    return not_in_file(Cause::WhyNeverNotTold);
  }
  Verdict verdict = told(VerdictKind::Never, {.micro_batches = usual.micro_batches,
                                              .are_kept_back = are_kept_back(*usual.example)});
  // Without the hook a backward seems to end with its last node, and what DDP issues then is
  // missed.
  verdict.fails = usual.example->models_are_known;
  explain_never(verdict, rank, *usual.example, "every micro-batch");
  return verdict;
}

Verdict judge_too_early(const RankEvents& rank, const Steps& steps, const UsualStep& usual) {
  const StepCounts& example = *usual.example;
  if (does_not_add_up(usual)) return judge_cleared(example);
  if (averages_by_hand(rank, steps)) {
    return not_recognised(Cause::LastAveragedByHand);
  }
  if (rank.is_imported() && !is_told_not_to(example)) {
    return not_in_file(Cause::WhyNotTheLastNotTold);
  }
  Verdict verdict = told(VerdictKind::TooEarly, {.micro_batches = example.micro_batches,
                                                 .behind_the_last = example.behind_the_last,
                                                 .are_kept_back = are_kept_back(example)});
  explain(verdict, Cause::EarlierSynchronizes);
  const MicroBatch& last = *last_wrapped(example);
  const bool is_armed_early = is_pipelined_under_ddp(last) && !last.is_unsynced;
  verdict.fails = example.models_are_known && (last.is_unsynced || is_armed_early);
  if (is_armed_early) {
    explain(verdict, Cause::ArmedEarly, {.at = last.forwards.front()});
  } else {
    explain_never(verdict, rank, example, "the last micro-batch");
  }
  return verdict;
}

Verdict some_steps_never(const Counted& all) {
  const auto never = std::count_if(all.begin(), all.end(),
                                   [](const StepCounts* step) { return step->synchronized == 0; });
  Verdict verdict =
      told(VerdictKind::SomeStepsNever, {.steps = static_cast<std::size_t>(never),
                                         .of_steps = all.size(),
                                         .are_kept_back = are_kept_back(*all.back())});
  explain(verdict, Cause::NoneHadSynchronized);
  return verdict;
}

Verdict judge_some_never(const RankEvents& rank, const Steps& steps, const Counted& wrapped) {
  if (averages_by_hand(rank, steps)) {
    return not_recognised(Cause::SomeAveragedByHand);
  }
  return some_steps_never(wrapped);
}

Verdict judge_unwrapped(const RankEvents& rank, const Steps& steps, const Counted& judged) {
  std::int64_t inside = 0;
  for (const StepCounts* step : judged) inside += step->alone_collectives;
  if (inside > 0 && rank.is_imported()) {
    return not_in_file(Cause::ModelNotTold);
  }
  if (inside > 0) {
    return not_recognised(Cause::UnknownWrapper);
  }
  const Event* wrap = last_before(rank, EventKind::Wrap, kEndOfTime);
  if (wrap == nullptr || has_event(rank, EventKind::Forward) || averages_by_hand(rank, steps)) {
    if (rank.is_imported() && wrap == nullptr && !exchanges_outside(steps)) {
      return not_in_file(Cause::WrapNotTold);
    }
    return not_recognised(exchanges_outside(steps) ? Cause::UnwrappedAveragedByHand
                                                   : Cause::TrainApart);
  }
  Verdict verdict = told(VerdictKind::Never);
  explain(verdict, Cause::WrappersForwardNeverRan, {.at = wrap});
  verdict.fails = true;
  return verdict;
}

}  // namespace gradsync::watch
