#include "harness/watch/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/units.h"
#include "harness/report/labels.h"
#include "harness/watch/preload/event_file.h"

namespace gradsync::watch {

using report::counted;

namespace {

// Collectives outside of backward that move no more than this in a step, or than half of the
// gradients where those are fewer, are taken for logging (a loss, a norm, a flag), not for an
// average of gradients or parameters made by hand. Larger: what is averaged in small parts passes
// for drift.
constexpr std::int64_t kLoggingBytes = 4096;
constexpr std::int64_t kUnknownBytes = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kEndOfTime = std::numeric_limits<std::int64_t>::max();

constexpr std::array<std::pair<VerdictKind, const char*>, 11> kKinds{{
    {VerdictKind::OncePerStep, "once_per_step"},
    {VerdictKind::MoreThanOnce, "more_than_once"},
    {VerdictKind::Never, "never"},
    {VerdictKind::TooEarly, "too_early"},
    {VerdictKind::SomeStepsNever, "some_steps_never"},
    {VerdictKind::FsdpEveryMicroBatch, "fsdp_every_micro_batch"},
    {VerdictKind::UnusedParameters, "unused_parameters"},
    {VerdictKind::Buffers, "buffers"},
    {VerdictKind::OneProcess, "one_process"},
    {VerdictKind::NoSteps, "no_steps"},
    {VerdictKind::NotRecognised, "not_recognised"},
}};

Verdict not_recognised(const std::string& why) {
  return {VerdictKind::NotRecognised, "not recognised", why, std::nullopt, false};
}

// ", train.py line 11"; nothing where the place is not known.
std::string at(const Event& event) {
  const std::string place = place_text(event.file, event.line);
  return place.empty() ? "" : ", " + place;
}

Change change_at(const Event& event, std::string what) {
  return {event.file, event.line, std::move(what)};
}

template <typename Predicate>
bool most(const Counted& steps, Predicate holds) {
  return 2 * std::count_if(steps.begin(), steps.end(), holds) > std::ssize(steps);
}

// Whether a collective can make ranks alike, which a barrier and a gathering of results cannot.
bool can_average(const Event& collective) {
  return collective.name != "barrier" && collective.name.find("gather") == std::string::npos;
}

std::int64_t averaged_bytes(const std::vector<const Event*>& collectives) {
  std::int64_t bytes = 0;
  for (const Event* collective : collectives) {
    if (!can_average(*collective)) continue;
    if (collective->bytes < 0) return kUnknownBytes;
    bytes += collective->bytes;
  }
  return bytes;
}

// Whether ranks exchange enough outside of backward to be kept alike by hand.
bool averages_by_hand(const RankEvents& rank, const Steps& steps) {
  std::int64_t limit = kLoggingBytes;
  for (const Event& event : rank.events) {
    if (event.kind == EventKind::Wrap && event.bytes >= 0) limit = std::min(limit, event.bytes / 2);
  }
  const auto averages = [&](const Step& step) { return averaged_bytes(step.outside) > limit; };
  return averaged_bytes(steps.closing) > limit ||
         std::any_of(steps.steps.begin(), steps.steps.end(), averages);
}

bool has_event(const RankEvents& rank, EventKind kind) {
  return std::any_of(rank.events.begin(), rank.events.end(),
                     [&](const Event& event) { return event.kind == kind; });
}

// The last event of a kind that begins before `before_ns`; null where there is none.
const Event* last_before(const RankEvents& rank, EventKind kind, std::int64_t before_ns) {
  const Event* last = nullptr;
  for (const Event& event : rank.events) {
    if (event.start_ns >= before_ns) break;
    if (event.kind == kind) last = &event;
  }
  return last;
}

// "in every micro-batch (4 x per step; 1 is enough)", "in 2 of 4 micro-batches of a step; ..."
std::string how_often(const UsualStep& usual) {
  if (usual.synchronized == usual.micro_batches) {
    return fmt::format("in every micro-batch ({} x per step; 1 is enough)", usual.synchronized);
  }
  return fmt::format("in {} of {} micro-batches of a step (1 is enough)", usual.synchronized,
                     usual.micro_batches);
}

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

// Why DDP synchronized too often, by the first micro-batch of the example that tells it.
void explain_excess(Verdict& verdict, const StepCounts& example) {
  for (const MicroBatch* micro_batch : example.excess_micro_batches) {
    if (const Event* misplaced = misplaced_no_sync(*micro_batch)) {
      verdict.why = "no_sync encloses backward but not forward" + at(*misplaced);
      verdict.change = change_at(
          *misplaced, "enclose the forward too: it decides whether backward synchronizes");
      return;
    }
    if (const Event* foreign = foreign_no_sync(*micro_batch)) {
      verdict.why = "no_sync is entered of another model than the one that runs" + at(*foreign);
      verdict.change = change_at(*foreign, "enter no_sync of the model that runs");
      return;
    }
    if (micro_batch->is_unsynced) {
      verdict.why = "backward synchronizes although its forward ran under no_sync";
      return;
    }
  }
  const Event& forward = *example.excess_micro_batches.front()->forwards.front();
  verdict.why = "no no_sync was entered";
  verdict.change = change_at(forward,
                             "run every micro-batch of a step but the last, forward and backward, "
                             "under the model's no_sync()");
}

Verdict judge_fsdp(const UsualStep& usual) {
  const StepCounts& example = *usual.example;
  std::int64_t scatters = 0;
  for (const auto& [op, sum] : example.collectives) {
    if (op.find("reduce_scatter") != std::string::npos) scatters += sum.count;
  }
  const std::string reductions =
      scatters > 0
          ? counted(static_cast<std::size_t>(scatters), "reduce-scatter", "reduce-scatters")
          : counted(static_cast<std::size_t>(example.reductions), "reduction", "reductions");
  Verdict verdict;
  verdict.kind = VerdictKind::FsdpEveryMicroBatch;
  verdict.sentence =
      fmt::format("FSDP without no_sync: {} per step, by choice or mistake", reductions);
  verdict.why = fmt::format(
      "it reduces {}; under no_sync every rank would hold the whole gradient, not its share",
      how_often(usual));
  verdict.change = change_at(*example.excess_micro_batches.front()->forwards.front(),
                             "where memory allows: set_requires_gradient_sync(False), or "
                             "no_sync(), but for the last micro-batch of a step");
  return verdict;
}

bool is_cleared_between(const StepCounts* step) {
  return !step->step->clearings.empty();
}

bool does_not_add_up(const UsualStep& usual) {
  return is_cleared_between(usual.example) && most(usual.all, is_cleared_between);
}

Verdict judge_cleared(const StepCounts& example) {
  const Event& clearing = *example.step->clearings.front();
  return not_recognised(fmt::format(
      "gradients are {} between the micro-batches of a step{}, so they do not add up: each may "
      "need a synchronization of its own",
      clearing.detail == kByHand ? "changed by hand" : "cleared", at(clearing)));
}

Verdict judge_excess(const UsualStep& usual) {
  const StepCounts& example = *usual.example;
  if (does_not_add_up(usual)) return judge_cleared(example);
  if (example.excess_micro_batches.empty()) {
    return not_recognised(
        "models share micro-batches: each synchronization is the last one of one of them");
  }
  if (example.has_fsdp) return judge_fsdp(usual);
  Verdict verdict;
  verdict.kind = VerdictKind::MoreThanOnce;
  verdict.sentence = "synchronizes " + how_often(usual);
  if (!example.models_are_known) {
    verdict.sentence += ", if these are one model's";
    verdict.why = "which model ran is not known without the Python hook";
    return verdict;
  }
  verdict.fails = true;
  explain_excess(verdict, example);
  return verdict;
}

// The last with a wrapped forward; null where there is none.
const MicroBatch* last_wrapped(const StepCounts& example) {
  const MicroBatch* last = nullptr;
  for (const MicroBatch& micro_batch : example.step->micro_batches) {
    if (!micro_batch.forwards.empty()) last = &micro_batch;
  }
  return last;
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
    verdict.change = change_at(*no_sync, "leave the last micro-batch of a step out of it");
    return;
  }
  const Event* flag = last_before(rank, EventKind::Sync, last->backwards.front()->end_ns);
  if (flag != nullptr && flag->detail == "false") {
    verdict.why = fmt::format("set_requires_gradient_sync(False) holds in {}{}", which, at(*flag));
    verdict.change = change_at(*flag, "call it with True before the last micro-batch of a step");
  }
}

Verdict judge_never(const RankEvents& rank, const Steps& steps, const UsualStep& usual) {
  if (averages_by_hand(rank, steps)) {
    return not_recognised(
        "no backward synchronizes, but ranks exchange data outside of it: parameters or gradients "
        "averaged by hand?");
  }
  Verdict verdict;
  verdict.kind = VerdictKind::Never;
  verdict.sentence = fmt::format(
      "{}, never synchronized: ranks drift",
      counted(static_cast<std::size_t>(usual.micro_batches), "micro-batch", "micro-batches"));
  // Without the hook a backward seems to end with its last node, and what DDP issues then is
  // missed.
  verdict.fails = usual.example->models_are_known;
  explain_never(verdict, rank, *usual.example, "every micro-batch");
  return verdict;
}

// Where micro-batches come after the last that synchronizes.
Verdict judge_too_early(const RankEvents& rank, const Steps& steps, const UsualStep& usual) {
  const StepCounts& example = *usual.example;
  if (does_not_add_up(usual)) return judge_cleared(example);
  if (averages_by_hand(rank, steps)) {
    return not_recognised(
        "no backward synchronizes what the last micro-batches add, but ranks exchange data "
        "outside of it: gradients averaged by hand?");
  }
  Verdict verdict;
  verdict.kind = VerdictKind::TooEarly;
  verdict.sentence = fmt::format("the last {} of {} micro-batches never synchronize: ranks drift",
                                 example.behind_the_last, example.micro_batches);
  verdict.why = "an earlier micro-batch synchronizes, which does nothing for those behind it";
  verdict.fails = example.models_are_known && last_wrapped(example)->is_unsynced;
  explain_never(verdict, rank, example, "the last micro-batch");
  return verdict;
}

// `wrapped`: the steps that ran a wrapped model, of which some synchronized.
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
      fmt::format("{} of {} steps never synchronize: ranks drift", never, wrapped.size());
  verdict.why = "the optimizer stepped on gradients of which no micro-batch had synchronized";
  return verdict;
}

// Whether anything was exchanged outside of backward that can make ranks alike, be it ever so
// small.
bool exchanges_outside(const Steps& steps) {
  return std::any_of(steps.steps.begin(), steps.steps.end(),
                     [](const Step& step) { return averaged_bytes(step.outside) > 0; });
}

// No step ran forward of a wrapped model.
Verdict judge_unwrapped(const RankEvents& rank, const Steps& steps, const Counted& judged) {
  std::int64_t inside = 0;
  for (const StepCounts* step : judged) inside += step->alone_collectives;
  if (inside > 0) {
    return not_recognised(
        "no model of a wrapper that is known here ran forward, but collectives ran in backward: "
        "another wrapper, or parallel layers?");
  }
  const Event* wrap = last_before(rank, EventKind::Wrap, kEndOfTime);
  if (wrap == nullptr || has_event(rank, EventKind::Forward) || averages_by_hand(rank, steps)) {
    return not_recognised(
        exchanges_outside(steps)
            ? "no wrapped model ran forward, but ranks exchange data outside of backward: "
              "gradients averaged by hand?"
            : "no step ran a wrapped model, and nothing that could be gradients was exchanged: "
              "ranks that are meant to train apart?");
  }
  Verdict verdict;
  verdict.kind = VerdictKind::Never;
  verdict.sentence = "never synchronized: ranks drift";
  verdict.why =
      fmt::format("the model was wrapped{}, but the wrapper's forward never ran", at(*wrap));
  verdict.change =
      change_at(*wrap, "call the model that is made here, not its module: forward arms backward");
  verdict.fails = true;
  return verdict;
}

// DDP arranges its buckets in the first step, which tells nothing about the others.
Verdict judge_once(const Counted& wrapped) {
  Counted more_often;
  for (const StepCounts* step : wrapped) {
    const bool may_be_meant = step->has_fsdp || is_cleared_between(step);
    if (step == wrapped.front() || may_be_meant || !step->models_are_known) continue;
    if (!step->excess_micro_batches.empty()) more_often.push_back(step);
  }
  Verdict verdict;
  verdict.kind = VerdictKind::OncePerStep;
  verdict.sentence = "synchronizes once per optimizer step: good";
  if (more_often.empty()) return verdict;
  explain_excess(verdict, *more_often.back());
  verdict.sentence = fmt::format("synchronizes once per optimizer step, but more often in {} of {}",
                                 more_often.size(), counted(wrapped.size() - 1, "step", "steps"));
  return verdict;
}

Verdict judge_wrapped(const RankEvents& rank, const Steps& steps, const Counted& judged,
                      const UsualStep& usual) {
  Counted wrapped;
  std::copy_if(judged.begin(), judged.end(), std::back_inserter(wrapped),
               [](const StepCounts* step) { return step->micro_batches > 0; });
  const auto never = std::count_if(wrapped.begin(), wrapped.end(),
                                   [](const StepCounts* step) { return step->synchronized == 0; });
  if (never == std::ssize(wrapped)) return judge_never(rank, steps, usual);
  const auto is_too_early = [](const StepCounts* step) { return step->behind_the_last > 0; };
  if (usual.synchronized > 0 && is_too_early(usual.example) && most(usual.all, is_too_early)) {
    return judge_too_early(rank, steps, usual);
  }
  if (usual.synchronized > 1) return judge_excess(usual);
  if (never > 0) return judge_some_never(rank, steps, wrapped);
  return judge_once(wrapped);
}

// What the process asked of NCCL past torch's c10d, or ran by launching a CUDA graph.
OpSums calls_of_nccl(const RankEvents& rank) {
  OpSums calls;
  for (const Event& event : rank.events) {
    if (event.kind == EventKind::Collective && has_word(event, kNcclCall)) add(calls, event);
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

Verdict first_verdict(const RankEvents& rank, const Steps& steps,
                      const std::vector<StepCounts>& counts) {
  if (rank.world_size <= 1) {
    return {VerdictKind::OneProcess, "one process: nothing to synchronize", "", std::nullopt,
            false};
  }
  const Counted judged = not_skipped(counts);
  if (judged.empty()) {
    if (const OpSums calls = calls_of_nccl(rank); !calls.empty()) {
      return not_recognised(
          fmt::format("no optimizer step was seen; NCCL itself was called for {}", listed(calls)));
    }
    return {VerdictKind::NoSteps, "no optimizer step was seen", "", std::nullopt, false};
  }
  if (most(judged, [](const StepCounts* step) { return step->step->repeats_closure; })) {
    return not_recognised(
        "the optimizer runs forward and backward by itself, as LBFGS does: each run needs its "
        "gradients");
  }
  const auto usual = usual_step(counts);
  if (usual->micro_batches == 0) return judge_unwrapped(rank, steps, judged);
  if (!has_event(rank, EventKind::Collective)) {
    return not_recognised(
        "no collective was seen, not even those that wrap a model: they pass by torch's c10d?");
  }
  return judge_wrapped(rank, steps, judged, *usual);
}

// The wrapping of a model that the step ran, with this option.
const Event* wrapped_with(const RankEvents& rank, const StepCounts& step, std::string_view option) {
  for (const MicroBatch& micro_batch : step.step->micro_batches) {
    for (const Event* forward : micro_batch.forwards) {
      for (const Event& event : rank.events) {
        if (event.kind == EventKind::Wrap && event.object == forward->object && event.object != 0 &&
            has_word(event, option)) {
          return &event;
        }
      }
    }
  }
  return nullptr;
}

std::optional<Verdict> judge_unused_parameters(const RankEvents& rank, const UsualStep& usual) {
  if (usual.synchronized == 0) return std::nullopt;
  const Event* wrap = wrapped_with(rank, *usual.example, "find_unused_parameters=true");
  if (wrap == nullptr) return std::nullopt;
  return Verdict{VerdictKind::UnusedParameters, "unused parameters searched in every step",
                 "find_unused_parameters=True" + at(*wrap),
                 change_at(*wrap, "drop it if every parameter takes part in every micro-batch"),
                 false};
}

std::optional<Verdict> judge_buffers(const UsualStep& usual) {
  const StepCounts& example = *usual.example;
  if (usual.synchronized < 2 || example.micro_batches_with_broadcasts < 2) return std::nullopt;
  const auto excess = example.excess.find("broadcast");
  if (excess == example.excess.end()) return std::nullopt;
  return Verdict{VerdictKind::Buffers,
                 fmt::format("buffers broadcast in {} micro-batches of a step (1 is enough)",
                             example.micro_batches_with_broadcasts),
                 "each forward after a synchronized one broadcasts them", std::nullopt, false};
}

}  // namespace

std::string to_string(VerdictKind kind) {
  for (const auto& [known, name] : kKinds) {
    if (known == kind) return name;
  }
  throw InternalError("a kind of verdict without a name");
}

std::optional<VerdictKind> verdict_kind(std::string_view name) {
  for (const auto& [kind, known] : kKinds) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

std::vector<Verdict> judge(const RankEvents& rank, const Steps& steps,
                           const std::vector<StepCounts>& counts) {
  std::vector<Verdict> verdicts{first_verdict(rank, steps, counts)};
  const VerdictKind first = verdicts.front().kind;
  const auto usual = usual_step(counts);
  if (!usual || first == VerdictKind::OneProcess || first == VerdictKind::NotRecognised) {
    return verdicts;
  }
  if (auto unused = judge_unused_parameters(rank, *usual)) verdicts.push_back(std::move(*unused));
  if (auto buffers = judge_buffers(*usual)) verdicts.push_back(std::move(*buffers));
  return verdicts;
}

std::string place_text(const std::string& file, int line) {
  if (file.empty()) return "";
  return fmt::format("{} line {}", std::filesystem::path(file).filename().string(), line);
}

std::string change_text(const Change& change) {
  const std::string place = place_text(change.file, change.line);
  return fmt::format("change{}{}: {}", place.empty() ? "" : " ", place, change.what);
}

}  // namespace gradsync::watch
