#include "harness/watch/judge/verdicts/meant.h"

#include <algorithm>

#include "harness/watch/judge/seen_beside.h"

namespace gradsync::watch {
namespace {

bool is_of_some_ranks(const Event& collective, const RankEvents& rank) {
  const auto group = std::ranges::find(rank.groups, collective.object, &Group::number);
  return group != rank.groups.end() && group->ranks.size() > 1 &&
         std::ssize(group->ranks) < rank.world_size;
}

// All ranks, or none, communicate with each other: they have no several models among them.
bool are_one_group(const RankEvents& rank) {
  return std::ranges::none_of(rank.events, [&](const Event& event) {
    return event.kind == EventKind::Collective &&
           (sends_parts(event) || is_of_some_ranks(event, rank));
  });
}

// An element has one byte at least.
bool may_hold(const Event* collective, std::int64_t elements) {
  return collective->bytes < 0 || collective->bytes >= elements;
}

bool is_reduced_at_times(const ParameterFate& of, const RankEvents& rank) {
  return std::ranges::any_of(rank.events, [&](const Event& event) {
    return event.kind == EventKind::Collective && event.name.find("reduce") != std::string::npos &&
           may_hold(&event, of.parameter->elements);
  });
}

bool is_averaged_at_times(const ParameterFate& of, const Steps& steps) {
  const auto may_average = [&](const Event* collective) {
    return may_hold(collective, of.parameter->elements);
  };
  return std::ranges::any_of(steps.steps, [&](const Step& step) {
    return std::ranges::any_of(step.outside, may_average) ||
           std::ranges::any_of(step.micro_batches, [&](const MicroBatch& micro_batch) {
             return std::ranges::any_of(micro_batch.in_forward, may_average);
           });
  });
}

const std::vector<double>* samples_at(const ParameterFate& of, const HashLook& look) {
  const auto found = look.samples.find(std::to_string(of.parameter->index));
  return found == look.samples.end() ? nullptr : &found->second;
}

// From each look to the next, in all numbers that were kept.
bool changes_throughout(const ParameterFate& of) {
  std::size_t changes = 0;
  const std::vector<double>* before = nullptr;
  for (const HashLook& look : of.optimizer->looks) {
    const std::vector<double>* now = samples_at(of, look);
    if (now == nullptr || look.is_last) continue;
    if (before != nullptr) {
      if (before->size() != now->size()) return false;
      for (std::size_t i = 0; i < now->size(); ++i) {
        if (now->at(i) == before->at(i)) return false;
      }
      ++changes;
    }
    before = now;
  }
  return changes > 1;
}

bool are_others_equal(const ParameterFate& of, const std::vector<ParameterFate>& all) {
  const auto is_trained_beside = [&](const ParameterFate& other) {
    return other.parameter->owner == Owner::Wrapper &&
           other.parameter->model == of.parameter->model;
  };
  return std::ranges::any_of(all, is_trained_beside) &&
         std::ranges::all_of(all, [&](const ParameterFate& other) {
           return !is_trained_beside(other) || other.fate == Fate::Equal;
         });
}

}  // namespace

std::optional<Cause> meant_cause(const TrackedParameter& parameter) {
  switch (parameter.meant) {
    case Meant::Replica:
      return Cause::MarkedAsReplica;
    case Meant::Hooked:
      return Cause::HookNeverReduces;
    case Meant::HookedCopy:
      return Cause::HookOnACopy;
    case Meant::Nothing:
    case Meant::Own:
      break;
  }
  return std::nullopt;
}

bool is_certainly_meant(const ParameterFate& of, const RankEvents& rank) {
  return are_one_group(rank) &&
         (of.parameter->meant == Meant::Replica || !is_reduced_at_times(of, rank));
}

bool is_changed_apart(const ParameterFate& of, const std::vector<ParameterFate>& all,
                      const Steps& steps) {
  return are_others_equal(of, all) && changes_throughout(of) && !is_averaged_at_times(of, steps);
}

}  // namespace gradsync::watch
