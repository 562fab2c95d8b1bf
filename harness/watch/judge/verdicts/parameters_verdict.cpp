#include "harness/watch/judge/verdicts/parameters_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string>

#include "harness/watch/judge/replicas.h"
#include "harness/watch/judge/seen_beside.h"
#include "harness/watch/judge/verdicts/drift_verdict.h"
#include "harness/watch/judge/verdicts/meant.h"
#include "harness/watch/judge/verdicts/passing_copies.h"
#include "harness/watch/judge/verdicts/verdict_parts.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {
namespace {

using Fates = std::vector<ParameterFate>;

// The facts about the whole job by which a drift is a fault or not.
struct Job {
  Job(const std::vector<Examined>& ranks, const Verdict& first);

  const RankEvents& rank;  // the lowest
  const Steps& steps;
  Fates fates;
  bool parts_layers = false;          // among ranks
  bool averages_by_hand = false;      // enough for gradients or parameters
  bool has_replicas = false;          // some parameter is kept equal
  bool reduces_in_each_step = false;  // by hand
  std::set<std::int64_t> passing;     // optimizers of copies that each rank trains by itself
};

bool has_part_of(const Group& group) {
  return group.role == GroupRole::Tensor || group.role == GroupRole::Context ||
         group.role == GroupRole::Expert || group.role == GroupRole::Pipeline;
}

// Reductions within forward are those of layers that are parted, or of statistics.
bool reduces_in_forward(const Steps& steps) {
  return std::ranges::any_of(steps.steps, [](const Step& step) {
    return std::ranges::any_of(step.micro_batches, [](const MicroBatch& micro_batch) {
      return std::ranges::any_of(micro_batch.in_forward, [](const Event* collective) {
        return collective->name.find("reduce") != std::string::npos;
      });
    });
  });
}

bool parts_layers(const RankEvents& rank, const Steps& steps) {
  const auto is_of_a_part = [](const Event& event) {
    return event.kind == EventKind::Collective && sends_parts(event);
  };
  return std::ranges::any_of(rank.groups, has_part_of) ||
         std::ranges::any_of(rank.events, is_of_a_part) || reduces_in_forward(steps) ||
         exchange_activations(steps);
}

Job::Job(const std::vector<Examined>& ranks, const Verdict& first)
    : rank(*ranks.front().events),
      steps(ranks.front().steps),
      fates(fates_of(events_of(ranks))),
      parts_layers(watch::parts_layers(rank, steps)),
      averages_by_hand(watch::averages_by_hand(rank, steps)),
      reduces_in_each_step(first.kind == VerdictKind::OncePerStep && first.numbers.steps == 0 &&
                           !has_event(rank, EventKind::Wrap)) {
  const auto is_sharded = [](const auto& optimizer) {
    return std::ranges::any_of(optimizer.second.parameters, [](const TrackedParameter& parameter) {
      return parameter.owner == Owner::Shard;
    });
  };
  has_replicas = std::ranges::any_of(
                     fates, [&](const ParameterFate& of) { return is_kept_equal(of, rank); }) ||
                 std::ranges::any_of(rank.optimizers, is_sharded);
  passing = optimizers_of_passing_copies(fates, rank);
}

Event event_at(const std::string& file, int line) {
  Event event;
  event.file = file;
  event.line = line;
  return event;
}

bool reduces_alone(const ParameterFate& of, const RankEvents& rank) {
  const Group* group = group_named(rank, of.parameter->group);
  return group != nullptr && group->ranks.size() == 1;
}

Cause cause_of(const ParameterFate& of, const RankEvents& rank) {
  switch (of.parameter->owner) {
    case Owner::Ignored:
      return Cause::WrapperIgnores;
    case Owner::Added:
      return Cause::AddedBehindWrap;
    case Owner::Wrapper:
      return reduces_alone(of, rank) ? Cause::GroupOfOne : Cause::DriftsThoughReduced;
    case Owner::Frozen:
      return Cause::ChangedInNoOptimizer;
    case Owner::None:
    case Owner::Shard:
    case Owner::Buffer:
      break;
  }
  if (of.is_stepped_by_some) return Cause::SteppedBySome;
  if (is_exchanged(of, rank)) return Cause::DriftsThoughExchanged;
  return meant_cause(*of.parameter).value_or(Cause::InNoWrapper);
}

// FSDP over a group of one rank is meant to have replicas on the other ranks.
bool is_meant_to_have_replicas(const ParameterFate& of, const RankEvents& rank) {
  const Event* wrap = wrap_of(rank, of.parameter->model);
  return wrap != nullptr && wrapper_named(wrap->name).is_sharded;
}

bool is_of_all_ranks(const Exchange& exchange, const RankEvents& rank) {
  const Group* group = group_named(rank, exchange.group);
  return exchange.group.empty() ||
         (group != nullptr && std::ssize(group->ranks) == rank.world_size);
}

// Whether the job all-reduces its gradient by hand, over all ranks.
template <typename Condition>
bool is_reduced_by_hand(const ParameterFate& of, const RankEvents& rank, Condition is_such) {
  return std::ranges::any_of(rank.exchanges, [&](const Exchange& exchange) {
    return is_such(exchange) && exchange.name == "all_reduce" && is_of_all_ranks(exchange, rank) &&
           is_of(of, exchange);
  });
}

bool is_of_outer(const Exchange& exchange) {
  return exchange.what == Exchange::What::OuterGradient;
}

// Where layers are parted among ranks: whether what each rank has by itself did not begin alike, as
// this did.
bool began_as_a_replica(const ParameterFate& of, const Job& job) {
  return !of.parameter->is_constant &&
         std::ranges::any_of(job.fates, [&](const ParameterFate& other) {
           return other.fate == Fate::Own && other.object == of.object &&
                  other.parameter->owner == Owner::None;
         });
}

// Whether ranks read one gradient of it, which the job all-reduces by hand: in each of its steps,
// or for an outer optimizer, where no step made replicas equal that began apart.
bool read_one_gradient(Cause cause, const ParameterFate& of, const Job& job) {
  if (job.parts_layers) return false;
  if (cause == Cause::BeganApart && is_reduced_by_hand(of, job.rank, is_of_outer)) return true;
  return job.reduces_in_each_step && is_reduced_by_hand(of, job.rank, moves_gradients);
}

bool is_a_fault(Cause cause, const ParameterFate& of, const Job& job) {
  if (of.parameter->meant == Meant::Own) return false;
  if (meant_cause(*of.parameter) == cause) return is_certainly_meant(of, job.rank);
  if (cause == Cause::ChangedInNoOptimizer) return is_changed_apart(of, job.fates, job.steps);
  if (cause == Cause::SteppedBySome || cause == Cause::DriftsThoughExchanged ||
      cause == Cause::BeganApart) {
    return read_one_gradient(cause, of, job);
  }
  if (cause == Cause::GroupOfOne) {
    return is_meant_to_have_replicas(of, job.rank) && !job.averages_by_hand;
  }
  if (cause == Cause::DriftsThoughReduced) return !job.averages_by_hand;
  const bool has_replicas = job.has_replicas || cause == Cause::AddedBehindWrap;
  return has_replicas && (!job.parts_layers || began_as_a_replica(of, job));
}

// "`proxies`"; "parameter 4" of one that no module has.
std::string name_of(const ParameterFate& of) {
  return of.parameter->name.empty() ? fmt::format("parameter {}", of.parameter->index)
                                    : fmt::format("`{}`", of.parameter->name);
}

void name_parameters(VerdictNumbers& numbers, const std::vector<const ParameterFate*>& fates) {
  for (const ParameterFate* of : fates) numbers.parameters.push_back(name_of(*of));
}

std::string optimizer_text(const TrackedOptimizer& optimizer) {
  const std::string place = place_text(optimizer.file, optimizer.line);
  return place.empty() ? optimizer.name : fmt::format("{} of {}", optimizer.name, place);
}

// Whether the job wraps models, and shards each of them.
bool shards_its_models(const RankEvents& rank) {
  return has_event(rank, EventKind::Wrap) &&
         std::ranges::all_of(rank.events, [](const Event& event) {
           return event.kind != EventKind::Wrap || wrapper_named(event.name).is_sharded;
         });
}

void explain_drift(Verdict& verdict, Cause cause, const ParameterFate& of, const RankEvents& rank) {
  const Event made = event_at(of.optimizer->file, of.optimizer->line);
  const Event hook = event_at(of.parameter->hook_file, of.parameter->hook_line);
  switch (cause) {
    case Cause::InNoWrapper:
    case Cause::SteppedBySome:
    case Cause::BeganApart:
      return explain(verdict, cause,
                     {.at = &made,
                      .given = optimizer_text(*of.optimizer),
                      .other_change = cause == Cause::InNoWrapper && shards_its_models(rank)});
    case Cause::MarkedAsReplica:
      return explain(verdict, cause, {.at = &made, .given = of.parameter->mark});
    case Cause::HookNeverReduces:
    case Cause::HookOnACopy:
      return explain(verdict, cause, {.at = &hook});
    default:
      return explain(
          verdict, cause,
          {.at = wrap_of(rank, of.parameter->model), .given = optimizer_text(*of.optimizer)});
  }
}

Verdict drift(Cause cause, const std::vector<const ParameterFate*>& fates, const Job& job) {
  const ParameterFate& first = **std::ranges::min_element(
      fates, {}, [](const ParameterFate* of) { return of->differs_from; });
  // A wrapper made it equal.
  const bool was_equal = cause == Cause::ChangedInNoOptimizer;
  VerdictNumbers numbers{.step = std::max<std::int64_t>(first.differs_from, was_equal ? 1 : 0),
                         .equal_until = first.equal_until,
                         .is_certain = std::ranges::any_of(fates, [&](const ParameterFate* of) {
                           return is_a_fault(cause, *of, job);
                         })};
  name_parameters(numbers, fates);
  Verdict verdict = told(VerdictKind::ReplicasDrift, numbers);
  verdict.fails = numbers.is_certain;
  explain_drift(verdict, cause, first, job.rank);
  if (!verdict.fails) {  // the rest would claim more
    verdict.why.clear();
    verdict.change.reset();
  }
  return verdict;
}

// Whether a wrapper makes it equal on all ranks before the first step, as it broadcasts it or
// reduces it among several ranks.
bool begins_equal(const ParameterFate& of, const RankEvents& rank) {
  const Owner owner = of.parameter->owner;
  return owner == Owner::Frozen || (owner == Owner::Wrapper && !reduces_alone(of, rank));
}

std::vector<Verdict> drifts_of(const Job& job) {
  std::map<Cause, std::vector<const ParameterFate*>> by_cause;
  for (const ParameterFate& of : job.fates) {
    if (job.passing.contains(of.object)) continue;
    const bool drifts = of.fate == Fate::Drifts && of.parameter->owner != Owner::Buffer;
    if (drifts) by_cause[cause_of(of, job.rank)].push_back(&of);
    const bool is_apart = of.fate == Fate::Own && of.is_never_equal;
    if (is_apart && begins_equal(of, job.rank)) {
      by_cause[cause_of(of, job.rank)].push_back(&of);
    } else if (is_apart && is_a_fault(Cause::BeganApart, of, job)) {
      by_cause[Cause::BeganApart].push_back(&of);
    }
  }
  std::vector<Verdict> verdicts;
  for (const auto& [cause, fates] : by_cause) verdicts.push_back(drift(cause, fates, job));
  std::ranges::stable_partition(verdicts, &Verdict::fails);
  return verdicts;
}

// The verdict on lines that reduce what is equal on all ranks already.
Verdict reduced_twice(const std::vector<const Exchange*>& again) {
  const Exchange& first = *again.front();
  VerdictNumbers numbers;
  for (const Exchange* exchange : again) numbers.bytes += exchange->bytes;
  Verdict verdict = told(VerdictKind::ReducedTwice, numbers);
  verdict.fails = true;
  const Event call = event_at(first.file, first.line);
  explain(verdict, Cause::EqualBefore, {.at = &call, .given = first.name});
  return verdict;
}

// Adds a note on these parameters, if there are any.
void add_note(std::vector<Verdict>& verdicts, VerdictKind kind,
              const std::vector<const ParameterFate*>& fates, VerdictNumbers numbers = {}) {
  if (fates.empty()) return;
  name_parameters(numbers, fates);
  verdicts.push_back(told(kind, numbers));
}

// On parameters that are equal again at times: the pace at which the job averages them.
void add_averaged(std::vector<Verdict>& verdicts, const Fates& fates) {
  VerdictNumbers numbers;
  std::vector<const ParameterFate*> found;
  for (const ParameterFate& of : fates) {
    if (of.fate != Fate::Rejoins || of.parameter->owner == Owner::Buffer) continue;
    found.push_back(&of);
    for (const std::int64_t step : of.equal_again) {
      numbers.step = std::gcd(numbers.step, step - of.equal_again.front());
    }
  }
  add_note(verdicts, VerdictKind::AveragedAtTimes, found, std::move(numbers));
}

void add_rounded(std::vector<Verdict>& verdicts, const Fates& fates) {
  VerdictNumbers numbers;
  std::vector<const ParameterFate*> found;
  for (const ParameterFate& of : fates) {
    if (of.fate != Fate::Rounds) continue;
    found.push_back(&of);
    numbers.step = found.front()->differs_from;
    numbers.equal_until = found.front()->equal_until;
  }
  add_note(verdicts, VerdictKind::DiffersInBits, found, std::move(numbers));
}

bool is_of_batch_norm(const TrackedParameter& buffer) {
  constexpr std::array kNames{"running_mean", "running_var", "num_batches_tracked"};
  return std::ranges::any_of(kNames, [&](const char* name) { return buffer.name.ends_with(name); });
}

bool is_broadcast(const ParameterFate& of, const RankEvents& rank) {
  const Event* wrap = wrap_of(rank, of.parameter->model);
  return wrap != nullptr && has_word(*wrap, "broadcast_buffers=true");
}

// On buffers that each rank changes by itself, as batch norm does its statistics: where DDP
// broadcasts rank 0's, that is what it is for.
void add_buffers(std::vector<Verdict>& verdicts, const Job& job) {
  std::vector<const ParameterFate*> found;
  VerdictNumbers numbers;
  for (const ParameterFate& of : job.fates) {
    const bool differs = of.fate == Fate::Drifts || of.fate == Fate::Own;
    if (!differs || of.parameter->owner != Owner::Buffer) continue;
    const bool are_broadcast = is_broadcast(of, job.rank);
    if (are_broadcast && is_of_batch_norm(*of.parameter)) continue;
    numbers.are_broadcast |= are_broadcast;
    found.push_back(&of);
  }
  add_note(verdicts, VerdictKind::BuffersDiffer, found, std::move(numbers));
}

// On parameters that no wrapper reduces and that never were equal, beside a model that ranks train
// together.
void add_own(std::vector<Verdict>& verdicts, const Job& job) {
  if (!job.has_replicas) return;
  std::vector<const ParameterFate*> found;
  for (const ParameterFate& of : job.fates) {
    const Owner owner = of.parameter->owner;
    const bool is_unreduced =
        owner == Owner::None || owner == Owner::Ignored || owner == Owner::Added;
    if (of.fate == Fate::Own && is_unreduced && !is_exchanged(of, job.rank)) found.push_back(&of);
  }
  add_note(verdicts, VerdictKind::OwnParameters, found);
}

bool is_good(const Verdict& verdict) {
  return verdict.kind == VerdictKind::OncePerStep ||
         verdict.kind == VerdictKind::ReplicasOncePerStep;
}

// Whether nothing of what is counted holds any more: each rank trains by itself, or what was taken
// for a model that never synchronizes is trained beside its wrapper alone.
bool refutes(const Verdict& drift, const std::vector<Verdict>& verdicts) {
  const Verdict& first = verdicts.front();
  const bool never = first.kind == VerdictKind::Never && first.cause == Cause::None;
  return drift.fails &&
         (drift.cause == Cause::GroupOfOne || (drift.cause == Cause::AddedBehindWrap && never));
}

// What was only suspected of the job as a whole is certain now, and says why.
void take_suspicion(Verdict& drift, std::vector<Verdict>& verdicts) {
  const auto suspected = std::ranges::find(verdicts, Cause::LeftBehind, &Verdict::cause);
  if (suspected == verdicts.end() || !drift.fails) return;
  drift.cause = suspected->cause;
  drift.why = suspected->why;
  verdicts.erase(suspected);
}

}  // namespace

void add_parameter_verdicts(std::vector<Verdict>& verdicts, const std::vector<Examined>& ranks,
                            const std::vector<const Exchange*>& reduced_again) {
  const Job job(ranks, verdicts.front());
  bool is_accused = verdicts.front().fails;
  std::size_t first = 0;
  for (Verdict& verdict : drifts_of(job)) {
    const bool is_of_all = verdict.cause == Cause::DriftsThoughReduced;
    if (is_of_all && is_accused) continue;  // counts say why
    if (!verdicts.empty() && refutes(verdict, verdicts)) {
      verdicts.clear();
      is_accused = false;
    }
    if (is_of_all && verdict.fails) std::erase_if(verdicts, is_good);
    if (is_of_all) take_suspicion(verdict, verdicts);
    const auto place = verdict.fails && !is_accused ? verdicts.begin() + static_cast<long>(first++)
                                                    : verdicts.end();
    verdicts.insert(place, std::move(verdict));
  }
  if (!reduced_again.empty()) {
    std::erase_if(verdicts, is_good);
    verdicts.insert(verdicts.begin(), reduced_twice(reduced_again));
  }
  add_averaged(verdicts, job.fates);
  add_rounded(verdicts, job.fates);
  add_own(verdicts, job);
  add_buffers(verdicts, job);
}

}  // namespace gradsync::watch
