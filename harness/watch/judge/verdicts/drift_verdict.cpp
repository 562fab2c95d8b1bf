#include "harness/watch/judge/verdicts/drift_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/text/labels.h"
#include "harness/watch/judge/verdicts/verdict_parts.h"

namespace gradsync::watch {
namespace {

// Collectives outside of backward that move no more than this in a step, or than half of the
// gradients where those are fewer, are taken for logging (a loss, a norm, a flag), not for an
// average of gradients or parameters made by hand. Larger: what is averaged in small parts passes
// for drift.
constexpr std::int64_t kLoggingBytes = 4096;
constexpr const char* kRanksDrift = "ranks drift";
constexpr std::int64_t kUnknownBytes = std::numeric_limits<std::int64_t>::max();
// In place of a number of bytes: no gather makes ranks alike.
constexpr std::int64_t kNotByGathers = kUnknownBytes;
constexpr std::int64_t kByAnyGather = 1;
constexpr std::int64_t kEndOfTime = std::numeric_limits<std::int64_t>::max();

bool is_gather(const Event& collective) {
  return collective.name.find("gather") != std::string::npos;
}

// Adds up what can make ranks alike, which a barrier cannot. Who gathers `gathered` bytes or more,
// as many as parameters have, may average what he gathers; fewer are results, and so are gathers of
// unknown size where the parameters' is known. Who scatters what it reduces does so with gradients,
// however small they are.
std::int64_t averaged_bytes(const std::vector<const Event*>& collectives, std::int64_t gathered) {
  std::int64_t bytes = 0;
  std::int64_t gathered_bytes = 0;
  for (const Event* collective : collectives) {
    if (collective->name == "barrier") continue;
    if (is_gather(*collective)) {
      if (collective->bytes < 0 && gathered == kByAnyGather) return kUnknownBytes;
      gathered_bytes += std::max<std::int64_t>(0, collective->bytes);
      continue;
    }
    const bool is_scatter = collective->name.find("reduce_scatter") != std::string::npos;
    if (collective->bytes < 0 || is_scatter) return kUnknownBytes;
    bytes += collective->bytes;
  }
  return gathered_bytes >= gathered ? bytes + gathered_bytes : bytes;
}

// Whether anything was exchanged outside of backward that can make ranks alike, be it ever so
// small.
bool exchanges_outside(const Steps& steps) {
  return std::any_of(steps.steps.begin(), steps.steps.end(), [](const Step& step) {
    return averaged_bytes(step.outside, kNotByGathers) > 0;
  });
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

// Whether the last micro-batch was seen to be told not to synchronize.
bool is_told_not_to(const StepCounts& example) {
  const MicroBatch* last = last_wrapped(example);
  return last != nullptr && last->is_unsynced;
}

// Whether the wrapper keeps back what the last micro-batch did not synchronize.
bool are_kept_back(const StepCounts& example) {
  const MicroBatch* last = last_wrapped(example);
  return last != nullptr && std::ranges::all_of(last->forwards, [](const Event* forward) {
           return wrapper_named(forward->name).keeps_back;
         });
}

// Of a pipeline under DDP, whose forward arms the backward that comes next.
constexpr const char* kArmTheLast =
    "run every forward under no_sync(), and call reducer.prepare_for_backward() before the last "
    "backward alone, as torch.distributed.pipelining does";

bool is_pipelined_under_ddp(const MicroBatch& micro_batch) {
  return micro_batch.is_pipelined && !is_of_fsdp(micro_batch);
}

void explain_armed_early(Verdict& verdict, const MicroBatch& last) {
  verdict.why =
      "each forward that is not under no_sync arms the backward that comes next, which is of an "
      "earlier micro-batch";
  verdict.change = change_at(*last.forwards.front(), kArmTheLast);
}

// Why the last micro-batch did not synchronize. `which`: those that did not, "every micro-batch".
void explain_never(Verdict& verdict, const RankEvents& rank, const StepCounts& example,
                   const char* which) {
  const MicroBatch* last = last_wrapped(example);
  if (last == nullptr) return;
  const Event* no_sync = last->no_sync_at_forward;
  if (no_sync != nullptr && last->no_sync_at_backward == nullptr) {
    verdict.why =
        "no_sync encloses forward though not backward, and forward decides" + at(*no_sync);
  } else if (no_sync != nullptr) {
    verdict.why = fmt::format("no_sync encloses {} of a step{}", which, at(*no_sync));
  } else if (last->is_unsynced) {
    verdict.why = "the wrapper's require_backward_grad_sync is off without a no_sync";
  }
  if (no_sync != nullptr) {
    verdict.change = change_at(*no_sync, is_pipelined_under_ddp(*last)
                                             ? kArmTheLast
                                             : "leave the last micro-batch of a step out of it");
    return;
  }
  const Event* flag = last_flag_before(rank, kGradientFlag, last->backwards.front()->end_ns);
  if (flag != nullptr && flag->detail == "false") {
    verdict.why = fmt::format("set_requires_gradient_sync(False) holds in {}{}", which, at(*flag));
    verdict.change = change_at(*flag, "call it with True before the last micro-batch of a step");
  }
}

}  // namespace

bool averages_by_hand(const RankEvents& rank, const Steps& steps) {
  // How large gradients are is in no file that others write.
  std::int64_t limit = rank.is_of_others() ? 0 : kLoggingBytes;
  std::int64_t gathered = rank.is_of_others() ? kByAnyGather : kNotByGathers;
  for (const Event& event : rank.events) {
    if (event.kind != EventKind::Wrap || event.bytes < 0) continue;
    limit = std::min(limit, event.bytes / 2);
    gathered = std::min(gathered, std::max(rank.world_size, 1) * event.bytes / 2);
  }
  const auto averages = [&](const std::vector<const Event*>& collectives) {
    return averaged_bytes(collectives, gathered) > limit;
  };
  return averages(steps.closing) ||
         std::any_of(steps.steps.begin(), steps.steps.end(),
                     [&](const Step& step) { return averages(step.outside); });
}

Verdict judge_never(const RankEvents& rank, const Steps& steps, const UsualStep& usual) {
  if (const Event* hook = last_before(rank, EventKind::CommHook, kEndOfTime)) {
    return not_recognised(fmt::format(
        "no backward synchronizes through torch's c10d, but the model has a communication hook{}, "
        "which may reduce by itself",
        at(*hook)));
  }
  if (averages_by_hand(rank, steps)) {
    return not_recognised(
        "no backward synchronizes, but ranks exchange data outside of it: parameters or gradients "
        "averaged by hand?");
  }
  if (reduces_alone(*usual.example->step)) {
    return not_recognised(
        "backward reduces in a process group of this rank alone: ranks that are meant to train "
        "apart?");
  }
  if (rank.is_of_others() && !is_told_not_to(*usual.example)) {
    return not_in_file(
        "why no backward synchronizes: whether the wrapper was told not to, or a communication "
        "hook reduces by itself");
  }
  Verdict verdict;
  verdict.kind = VerdictKind::Never;
  verdict.sentence = fmt::format(
      "{}, never synchronized: {}",
      text::counted(static_cast<std::size_t>(usual.micro_batches), "micro-batch", "micro-batches"),
      are_kept_back(*usual.example) ? "no gradient reaches the optimizer" : kRanksDrift);
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
    return not_recognised(
        "no backward synchronizes what the last micro-batches add, but ranks exchange data "
        "outside of it: gradients averaged by hand?");
  }
  if (rank.is_of_others() && !is_told_not_to(example)) {
    return not_in_file(
        "why the last micro-batches do not synchronize: whether the wrapper was told not to");
  }
  Verdict verdict;
  verdict.kind = VerdictKind::TooEarly;
  verdict.sentence =
      fmt::format("the last {} of {} micro-batches never synchronize: {}", example.behind_the_last,
                  example.micro_batches,
                  are_kept_back(example) ? "their gradients come a step late" : kRanksDrift);
  verdict.why = "an earlier micro-batch synchronizes, which does nothing for those behind it";
  const MicroBatch& last = *last_wrapped(example);
  const bool is_armed_early = is_pipelined_under_ddp(last) && !last.is_unsynced;
  verdict.fails = example.models_are_known && (last.is_unsynced || is_armed_early);
  if (is_armed_early) {
    explain_armed_early(verdict, last);
  } else {
    explain_never(verdict, rank, example, "the last micro-batch");
  }
  return verdict;
}

Verdict judge_left_behind(const StepCounts& example) {
  return not_recognised(fmt::format(
      "a backward comes behind the one that synchronizes{}, and DDP reduces nothing of it: ranks "
      "drift, unless its gradients are of another model",
      at(*example.left_behind)));
}

Verdict judge_some_never(const RankEvents& rank, const Steps& steps, const Counted& wrapped) {
  if (averages_by_hand(rank, steps)) {
    return not_recognised(
        "not every step synchronizes in backward, but ranks exchange data outside of it: "
        "parameters averaged by hand?");
  }
  const auto never = std::count_if(wrapped.begin(), wrapped.end(),
                                   [](const StepCounts* step) { return step->synchronized == 0; });
  Verdict verdict;
  verdict.kind = VerdictKind::SomeStepsNever;
  verdict.sentence =
      fmt::format("{} of {} steps never synchronize: {}", never, wrapped.size(),
                  are_kept_back(*wrapped.back()) ? "their gradients come late" : kRanksDrift);
  verdict.why = "the optimizer stepped on gradients of which no micro-batch had synchronized";
  return verdict;
}

Verdict judge_unwrapped(const RankEvents& rank, const Steps& steps, const Counted& judged) {
  std::int64_t inside = 0;
  for (const StepCounts* step : judged) inside += step->alone_collectives;
  if (inside > 0 && rank.is_of_others()) {
    return not_in_file(
        "which model ran forward: collectives ran in backward, by a wrapper without a range of its "
        "own, parallel layers or the job itself");
  }
  if (inside > 0) {
    return not_recognised(
        "no model of a wrapper that is known here ran forward, but collectives ran in backward: "
        "another wrapper, or parallel layers?");
  }
  const Event* wrap = last_before(rank, EventKind::Wrap, kEndOfTime);
  if (wrap == nullptr || has_event(rank, EventKind::Forward) || averages_by_hand(rank, steps)) {
    if (rank.is_of_others() && wrap == nullptr && !exchanges_outside(steps)) {
      return not_in_file("whether a model is wrapped whose wrapper's forward never ran");
    }
    return not_recognised(
        exchanges_outside(steps)
            ? "no wrapped model ran forward, but ranks exchange data outside of backward: "
              "gradients averaged by hand?"
            : "no step ran a wrapped model, and nothing that could be gradients was exchanged: "
              "ranks that are meant to train apart?");
  }
  Verdict verdict;
  verdict.kind = VerdictKind::Never;
  verdict.sentence = fmt::format("never synchronized: {}", kRanksDrift);
  verdict.why =
      fmt::format("the model was wrapped{}, but the wrapper's forward never ran", at(*wrap));
  verdict.change =
      change_at(*wrap, "call the model that is made here, not its module: forward arms backward");
  verdict.fails = true;
  return verdict;
}

}  // namespace gradsync::watch
