#include "harness/watch/judge/verdicts/verdict_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "harness/base/units.h"
#include "harness/text/labels.h"

namespace gradsync::watch {
namespace {

using text::counted;

constexpr std::string_view kGood = ": good";

// "in every micro-batch (4 x per step; 1 is enough)", "in 2 of 4 micro-batches of a step (1 is
// enough)"
std::string how_often(const VerdictNumbers& numbers) {
  const char* part = numbers.are_replayed ? "replayed mini-batch" : "micro-batch";
  if (numbers.synchronized == numbers.micro_batches) {
    return fmt::format("in every {} ({} x per step; 1 is enough)", part, numbers.synchronized);
  }
  return fmt::format("in {} of {} {}es of a step (1 is enough)", numbers.synchronized,
                     numbers.micro_batches, part);
}

std::string why_text(Cause cause, const Grounds& grounds, const VerdictNumbers& numbers) {
  return fmt::format(fmt::runtime(words_of(cause).why),
                     fmt::arg("at", grounds.at == nullptr ? "" : at(*grounds.at)),
                     fmt::arg("which", grounds.which), fmt::arg("given", grounds.given),
                     fmt::arg("how_often", how_often(numbers)));
}

std::string fsdp_sentence(const VerdictNumbers& numbers) {
  const auto count = static_cast<std::size_t>(numbers.reductions);
  return fmt::format("FSDP without no_sync: {} per step, by choice or mistake",
                     numbers.are_scatters ? counted(count, "reduce-scatter", "reduce-scatters")
                                          : counted(count, "reduction", "reductions"));
}

std::string every_sentence(const VerdictNumbers& numbers) {
  return "reduces gradients " + how_often(numbers) + ", by choice or mistake";
}

std::string never_sentence(const VerdictNumbers& numbers) {
  const char* outcome = numbers.are_kept_back ? "no gradient reaches the optimizer" : "ranks drift";
  if (numbers.micro_batches == 0) return fmt::format("never synchronized: {}", outcome);
  return fmt::format(
      "{}, never synchronized: {}",
      counted(static_cast<std::size_t>(numbers.micro_batches), "micro-batch", "micro-batches"),
      outcome);
}

// "`proxies`", "`a` and `b`", "`a`, `b` and 3 more parameters"
std::string parameters_text(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 2;
  if (names.size() <= kNamed) return fmt::format("{}", fmt::join(names, " and "));
  return fmt::format("{} and {}", fmt::join(names.begin(), names.begin() + kNamed, ", "),
                     counted(names.size() - kNamed, "more parameter", "more parameters"));
}

const char* differ(const VerdictNumbers& numbers) {
  return numbers.parameters.size() == 1 ? "differs" : "differ";
}

// Step 1 ends with other parameters than it began with: step 2 is the first that begins with these.
std::string since(const VerdictNumbers& numbers) {
  if (numbers.step == numbers.equal_until + 1) {
    return fmt::format("from step {} on", numbers.step + 1);
  }
  return fmt::format("after step {}, but not yet after step {}", numbers.step, numbers.equal_until);
}

std::string drift_sentence(const VerdictNumbers& numbers) {
  if (numbers.step == 0) {
    return fmt::format("replicas begin apart: {} {} between ranks from the start",
                       parameters_text(numbers.parameters), differ(numbers));
  }
  return fmt::format("{}{} {} between ranks {}", numbers.is_certain ? "replicas drift: " : "",
                     parameters_text(numbers.parameters), differ(numbers), since(numbers));
}

std::string averaged_sentence(const VerdictNumbers& numbers) {
  const std::string pace =
      numbers.step > 0 ? "every " + counted(static_cast<std::size_t>(numbers.step), "step", "steps")
                       : "later";
  return fmt::format("{} {} between ranks, and {} equal again {}: the job averages parameters",
                     parameters_text(numbers.parameters), differ(numbers),
                     numbers.parameters.size() == 1 ? "is" : "are", pace);
}

std::string once_sentence(const VerdictNumbers& numbers) {
  if (numbers.steps == 0) return fmt::format("synchronizes once per optimizer step{}", kGood);
  return fmt::format("synchronizes once per optimizer step, but more often in {} of {}",
                     numbers.steps, counted(numbers.of_steps, "step", "steps"));
}

std::string sentence_of(VerdictKind kind, const VerdictNumbers& numbers) {
  switch (kind) {
    case VerdictKind::OncePerStep:
      return once_sentence(numbers);
    case VerdictKind::MoreThanOnce:
      return fmt::format("synchronizes {}{}", how_often(numbers),
                         numbers.models_are_known ? "" : ", if these are one model's");
    case VerdictKind::Never:
      return never_sentence(numbers);
    case VerdictKind::TooEarly:
      return fmt::format(
          "the last {} of {} micro-batches never synchronize: {}", numbers.behind_the_last,
          numbers.micro_batches,
          numbers.are_kept_back ? "their gradients come a step late" : "ranks drift");
    case VerdictKind::SomeStepsNever:
      return fmt::format("{} of {} steps never synchronize: {}", numbers.steps, numbers.of_steps,
                         numbers.are_kept_back ? "their gradients come late" : "ranks drift");
    case VerdictKind::FsdpEveryMicroBatch:
      return fsdp_sentence(numbers);
    case VerdictKind::EveryMicroBatch:
      return every_sentence(numbers);
    case VerdictKind::ReplicasMoreThanOnce:
      return "replicas are synchronized " + how_often(numbers);
    case VerdictKind::ReplicasNever:
      return fmt::format("replicas are never synchronized: {}",
                         numbers.are_kept_back ? "no gradient reaches the optimizer"
                                               : "they train apart, and drift");
    case VerdictKind::ReplicasTooEarly:
      return fmt::format(
          "replicas are not synchronized after the last {} of {} micro-batches: their gradients "
          "come a step late",
          numbers.behind_the_last, numbers.micro_batches);
    case VerdictKind::ReplicasOncePerStep:
      return fmt::format("replicas are synchronized once per step{}", kGood);
    case VerdictKind::ReplicasDrift:
      return drift_sentence(numbers);
    case VerdictKind::ReducedTwice:
      return fmt::format(
          "gradients are reduced twice: by the wrapper, and again by hand ({} per step)",
          format_bytes(static_cast<double>(numbers.bytes)));
    case VerdictKind::AveragedAtTimes:
      return averaged_sentence(numbers);
    case VerdictKind::DiffersInBits:
      return fmt::format("{} {} between ranks by rounding, {}: they run on unlike hardware",
                         parameters_text(numbers.parameters), differ(numbers), since(numbers));
    case VerdictKind::OwnParameters:
      return fmt::format(
          "{} {} between ranks from the start, and no rank reduces {} gradient: "
          "right only for experts and stages",
          parameters_text(numbers.parameters), differ(numbers),
          numbers.parameters.size() == 1 ? "its" : "their");
    case VerdictKind::BuffersDiffer:
      return fmt::format("{} {} between ranks: each rank changes its buffers by itself{}",
                         parameters_text(numbers.parameters), differ(numbers),
                         numbers.are_broadcast ? ", and DDP replaces them by rank 0's"
                                               : ", as batch norm does its statistics");
    case VerdictKind::UnusedParameters:
      return "unused parameters searched in every step";
    case VerdictKind::Buffers:
      return fmt::format("buffers broadcast in {} micro-batches of a step (1 is enough)",
                         numbers.synchronized);
    case VerdictKind::OneProcess:
      return "one process: nothing to synchronize";
    case VerdictKind::NoSteps:
      return "no optimizer step was seen";
    case VerdictKind::NotRecognised:
      return "not recognised";
    case VerdictKind::NotInFile:
      break;
  }
  return "not in this file";
}

}  // namespace

std::string at(const Event& event) {
  const std::string place = place_text(event.file, event.line);
  return place.empty() ? "" : ", " + place;
}

Change change_at(const Event& event, std::string what) {
  return {event.file, event.line, std::move(what)};
}

void explain(Verdict& verdict, Cause cause, const Grounds& grounds) {
  const CauseWords& words = words_of(cause);
  verdict.cause = cause;
  verdict.why = why_text(cause, grounds, verdict.numbers);
  const char* change = grounds.other_change ? words.other_change : words.change;
  if (change == nullptr) return;
  const Event* at = grounds.change_at != nullptr ? grounds.change_at : grounds.at;
  const std::string_view defer = wrapper_named(at == nullptr ? "" : at->name).deferral;
  const std::string what = fmt::format(fmt::runtime(change), fmt::arg("defer", defer));
  verdict.change = at == nullptr ? Change{"", 0, what} : change_at(*at, what);
}

Verdict told(VerdictKind kind, const VerdictNumbers& numbers) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.numbers = numbers;
  verdict.sentence = sentence_of(kind, numbers);
  return verdict;
}

void say_account(Verdict& verdict, const char* outcome, const std::string& why) {
  std::string& said = verdict.sentence;
  if (said.ends_with(kGood)) said.resize(said.size() - kGood.size());
  said += fmt::format(", but its account {}", outcome);
  if (verdict.why.empty()) verdict.why = why;
}

void say_inside(Verdict& verdict, const Event& forward) {
  const std::string_view name = word_value(forward, "inside").value_or("");
  verdict.sentence = fmt::format("the {} inside{} {}", forward.name,
                                 name.empty() ? "" : fmt::format(" ({})", name), verdict.sentence);
}

Verdict not_recognised(Cause cause, const Grounds& grounds) {
  Verdict verdict = told(VerdictKind::NotRecognised);
  explain(verdict, cause, grounds);
  return verdict;
}

Verdict no_torch() {
  Verdict verdict = told(VerdictKind::NoSteps);
  verdict.cause = Cause::NoTorch;
  verdict.sentence = words_of(Cause::NoTorch).why;
  return verdict;
}

Verdict not_in_file(Cause cause, const Grounds& grounds, const VerdictNumbers& numbers) {
  Verdict verdict = told(VerdictKind::NotInFile, numbers);
  verdict.cause = cause;
  verdict.sentence += ": " + why_text(cause, grounds, numbers);
  return verdict;
}

}  // namespace gradsync::watch
