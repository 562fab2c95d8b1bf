#include "harness/watch/judge/verdicts/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "harness/watch/judge/verdicts/library.h"
#include "harness/watch/judge/verdicts/rules.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {

namespace {

// The wrapping of a model that the step ran, with this option.
const Event* wrapped_with(const RankEvents& rank, const StepCounts& step, std::string_view option) {
  for (const MicroBatch& micro_batch : step.step->micro_batches) {
    for (const Event* forward : micro_batch.forwards) {
      const Event* wrap = wrap_of(rank, forward->object);
      if (wrap != nullptr && has_word(*wrap, option)) return wrap;
    }
  }
  return nullptr;
}

std::optional<Verdict> judge_unused_parameters(const RankEvents& rank, const UsualStep& usual) {
  if (usual.synchronized == 0) return std::nullopt;
  const Event* wrap = wrapped_with(rank, *usual.example, "find_unused_parameters=true");
  if (wrap == nullptr) return std::nullopt;
  Verdict verdict = told(VerdictKind::UnusedParameters);
  explain(verdict, Cause::SearchesUnused, {.at = wrap});
  return verdict;
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
  Verdict verdict =
      told(VerdictKind::Buffers, {.micro_batches = usual.micro_batches,
                                  .synchronized = example.micro_batches_with_broadcasts});
  explain(verdict, Cause::EachForwardBroadcasts);
  return verdict;
}

bool is_at(const Event& event, const Change& change) {
  return event.file == change.file && event.line == change.line;
}

// The wrapping at the line of a change; null where it is another call.
const Event* wrap_at(const RankEvents& rank, const Change& change) {
  const auto found = std::ranges::find_if(rank.events, [&](const Event& event) {
    return event.kind == EventKind::Wrap && is_at(event, change);
  });
  return found == rank.events.end() ? nullptr : &*found;
}

// Where a library has the loop, or wraps the model.
void say_library(Verdict& verdict, const RankEvents& rank, const StepCounts& example) {
  if (!verdict.change) return;
  const Event* called = nullptr;
  for (const MicroBatch& micro_batch : example.step->micro_batches) {
    if (called == nullptr) called = call_of_library(micro_batch);
  }
  const bool is_backward = called != nullptr && called->kind == EventKind::Backward;
  if (is_backward && !is_at(*called, *verdict.change)) called = nullptr;
  if (called == nullptr) called = wrap_at(rank, *verdict.change);
  const bool is_of_unused = verdict.cause == Cause::SearchesUnused;
  if (called != nullptr) {
    say_library(*verdict.change, *called,
                is_of_unused ? Knob::UnusedParameters : Knob::Accumulation);
  }
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
  for (Verdict& verdict : verdicts) say_library(verdict, rank, *usual->example);
  return verdicts;
}

std::string change_text(const Change& change) {
  std::string place = place_text(change.file, change.line);
  if (!change.inside.empty()) place += (place.empty() ? "" : ", which runs ") + change.inside;
  return fmt::format("change{}{}: {}", place.empty() ? "" : " ", place, change.what);
}

std::string verdict_sentence(const Verdict& verdict) {
  std::string text = verdict.sentence;
  if (!verdict.why.empty()) text += ": " + verdict.why;
  if (verdict.change) text += "; " + change_text(*verdict.change);
  return text;
}

}  // namespace gradsync::watch
