#include "harness/watch/judge/verdicts/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "harness/base/units.h"
#include "harness/watch/judge/verdicts/drift_verdict.h"
#include "harness/watch/judge/verdicts/excess_verdict.h"
#include "harness/watch/judge/verdicts/replicas_verdict.h"
#include "harness/watch/judge/verdicts/verdict_parts.h"

namespace gradsync::watch {

namespace {

Verdict judge_wrapped(const RankEvents& rank, const Steps& steps, const Counted& judged,
                      const UsualStep& usual) {
  if (most(judged, [](const StepCounts* step) { return step->step->is_interleaved; })) {
    return not_recognised(
        "forwards and backwards of several models take turns, as those of a pipeline's stages do: "
        "which model a backward is of is not known");
  }
  if (usual.example->left_behind != nullptr &&
      most(usual.all, [](const StepCounts* step) { return step->left_behind != nullptr; })) {
    return judge_left_behind(*usual.example);
  }
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
  if (usual.synchronized > 1) return judge_excess(rank, usual);
  if (never > 0) return judge_some_never(rank, steps, wrapped);
  if (rank.is_of_others() && has_event(rank, EventKind::CommHook) &&
      averages_by_hand(rank, steps)) {
    return not_in_file(
        "whether the model's communication hook reduces over all ranks, which exchange data "
        "outside of backward, too");
  }
  return judge_once(rank, wrapped);
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

bool has_collective_of_unknown_group(const RankEvents& rank) {
  return std::ranges::any_of(rank.events, [](const Event& event) {
    return event.kind == EventKind::Collective && event.object == 0;
  });
}

// What a file without a whole step lacks.
const char* steps_lacking(const RankEvents& rank) {
  if (!has_event(rank, EventKind::OptimizerStep)) return "where an optimizer steps";
  return has_event(rank, EventKind::Backward) ? "a whole step, from one optimizer's to the next"
                                              : "where backward runs";
}

// Whether only models without shards ran whose wrapper keeps back what it was told not to
// synchronize: it communicates nothing when it wraps.
bool is_held_back(const StepCounts& step) {
  return std::ranges::all_of(step.step->micro_batches, [](const MicroBatch& micro_batch) {
    return micro_batch.is_unsynced &&
           std::ranges::all_of(micro_batch.forwards, [](const Event* forward) {
             const Wrapper wrapper = wrapper_named(forward->name);
             return wrapper.keeps_back && !wrapper.is_sharded;
           });
  });
}

Verdict first_verdict(const RankEvents& rank, const Steps& steps,
                      const std::vector<StepCounts>& counts) {
  if (rank.world_size == 0 && rank.is_of_others()) {
    return not_in_file("how many ranks the job has");
  }
  if (rank.world_size <= 1 && !rank.peers.empty()) {
    return not_recognised(
        fmt::format("it has no process group of torch's c10d, and is one of several processes for "
                    "all that ({}): "
                    "what they exchange passes by the watcher",
                    rank.peers));
  }
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
    if (rank.is_of_others()) return not_in_file(steps_lacking(rank));
    return {VerdictKind::NoSteps, "no optimizer step was seen", "", std::nullopt, false};
  }
  if (most(judged, [](const StepCounts* step) { return step->step->repeats_closure; })) {
    return not_recognised(
        "the optimizer runs forward and backward by itself, as LBFGS does: each run needs its "
        "gradients");
  }
  if (rank.is_of_others() && has_collective_of_unknown_group(rank)) {
    return not_in_file("in which process group each collective ran");
  }
  if (rank.runs_ahead) {
    return not_in_file("which forward a backward answers, of those that ran ahead of it");
  }
  const auto usual = usual_step(counts);
  if (usual->micro_batches == 0) return judge_unwrapped(rank, steps, judged);
  if (!rank.is_of_others() && !has_event(rank, EventKind::Collective) &&
      !is_held_back(*usual->example)) {
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

// Puts what is to be changed first. Where only replicas synchronize too often, there is nothing to
// say of shards.
void add_replicas(std::vector<Verdict>& verdicts, Verdict replicas, const UsualStep& usual) {
  const bool is_of_shards = verdicts.front().kind == VerdictKind::FsdpEveryMicroBatch;
  if (replicas.kind == VerdictKind::ReplicasOncePerStep) {
    if (is_of_shards) verdicts.push_back(std::move(replicas));
    return;
  }
  if (is_of_shards && !usual.example->has_excess_among_shards) verdicts.clear();
  verdicts.insert(verdicts.begin(), std::move(replicas));
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

bool is_unjudged(VerdictKind kind) {
  return kind == VerdictKind::NotRecognised || kind == VerdictKind::NotInFile;
}

std::vector<Verdict> judge(const RankEvents& rank, const Steps& steps,
                           const std::vector<StepCounts>& counts) {
  std::vector<Verdict> verdicts{first_verdict(rank, steps, counts)};
  const VerdictKind first = verdicts.front().kind;
  const auto usual = usual_step(counts);
  if (!usual || first == VerdictKind::OneProcess || is_unjudged(first)) {
    return verdicts;
  }
  if (auto replicas = judge_replicas(rank, steps, not_skipped(counts), *usual)) {
    add_replicas(verdicts, std::move(*replicas), *usual);
  }
  if (auto unused = judge_unused_parameters(rank, *usual)) verdicts.push_back(std::move(*unused));
  if (auto buffers = judge_buffers(*usual)) verdicts.push_back(std::move(*buffers));
  return verdicts;
}

std::string change_text(const Change& change) {
  const std::string place = place_text(change.file, change.line);
  return fmt::format("change{}{}: {}", place.empty() ? "" : " ", place, change.what);
}

std::string verdict_sentence(const Verdict& verdict) {
  std::string text = verdict.sentence;
  if (!verdict.why.empty()) text += ": " + verdict.why;
  if (verdict.change) text += "; " + change_text(*verdict.change);
  return text;
}

}  // namespace gradsync::watch
