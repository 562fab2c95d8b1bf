#include "harness/watch/judge/verdicts/excess_verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/text/labels.h"
#include "harness/watch/judge/verdicts/verdict_parts.h"

namespace gradsync::watch {

using text::counted;

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
  const Event& forward = *micro_batch.forwards.front();
  const Event* flag = last_flag_before(rank, kGradientFlag, micro_batch.backwards.front()->end_ns);
  if (flag == nullptr) {
    verdict.why = "set_requires_gradient_sync(False) was not called";
    verdict.change = change_at(forward, std::string(wrapper_named(forward.name).deferral));
  } else if (flag->detail == "true") {
    verdict.why = "set_requires_gradient_sync(True)" + at(*flag);
    verdict.change = change_at(*flag, "call it with True for the last micro-batch of a step alone");
  } else {
    verdict.why = "set_requires_gradient_sync(False) comes behind forward" + at(*flag);
    verdict.change =
        change_at(*flag, "call it before forward, which decides whether backward synchronizes");
  }
}

// Why DDP synchronized too often, by the first micro-batch of the example that tells it.
void explain_excess(Verdict& verdict, const RankEvents& rank, const StepCounts& example) {
  for (const MicroBatch* micro_batch : example.excess_micro_batches) {
    if (const Event* arming = arming_forward(*micro_batch)) {
      verdict.why = "a forward outside of no_sync arms the backward that comes next" + at(*arming);
      verdict.change = change_at(
          *arming, "run it under torch.no_grad(), if nothing runs backward from it, or no_sync()");
      return;
    }
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
  const Wrapper wrapper = wrapper_named(forward.name);
  if (wrapper.is_told_by_flag) {
    explain_flag(verdict, rank, *example.excess_micro_batches.front());
    return;
  }
  verdict.why = "no no_sync was entered";
  verdict.change = change_at(forward, std::string(wrapper.deferral));
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
      how_often(usual.synchronized, usual.micro_batches));
  verdict.change = change_at(*example.excess_micro_batches.front()->forwards.front(),
                             "where memory allows: set_requires_gradient_sync(False), or "
                             "no_sync(), but for the last micro-batch of a step");
  return verdict;
}

}  // namespace

Verdict judge_excess(const RankEvents& rank, const UsualStep& usual) {
  const StepCounts& example = *usual.example;
  if (does_not_add_up(usual)) return judge_cleared(example);
  if (example.excess_micro_batches.empty()) {
    return not_recognised(
        "models share micro-batches: each synchronization is the last one of one of them");
  }
  if (example.has_shards) return judge_fsdp(usual);
  Verdict verdict;
  verdict.kind = VerdictKind::MoreThanOnce;
  verdict.sentence = "synchronizes " + how_often(usual.synchronized, usual.micro_batches);
  if (!example.models_are_known && rank.is_of_others()) {
    return not_in_file(fmt::format("whether it is one model that {}", verdict.sentence));
  }
  if (!example.models_are_known) {
    verdict.sentence += ", if these are one model's";
    verdict.why = "which model ran is not known without the Python hook";
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
  if (rank.is_of_others() && std::ranges::any_of(wrapped, may_be_another)) {
    return not_in_file("whether steps that synchronize once and more often are one model's");
  }
  Verdict verdict;
  verdict.kind = VerdictKind::OncePerStep;
  verdict.sentence = "synchronizes once per optimizer step: good";
  if (more_often.empty()) return verdict;
  explain_excess(verdict, rank, *more_often.back());
  verdict.sentence = fmt::format("synchronizes once per optimizer step, but more often in {} of {}",
                                 more_often.size(), counted(wrapped.size() - 1, "step", "steps"));
  return verdict;
}

}  // namespace gradsync::watch
