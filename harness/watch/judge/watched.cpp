#include "harness/watch/judge/watched.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "harness/account/account_words.h"
#include "harness/paper/words.h"
#include "harness/stats/sample.h"
#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/replicas.h"
#include "harness/watch/judge/verdicts/parameters_verdict.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {

namespace {

WatchedRank watched_rank(const Examined& rank) {
  WatchedRank watched;
  watched.rank = rank.events->rank;
  watched.pid = rank.events->pid;
  watched.peak = rank.events->peak;
  if (rank.events->gpu) watched.gpu = times_of(*rank.events->gpu);
  watched.backwards = 0;
  for (const Step& step : rank.steps.steps) {
    watched.evaluation_forwards += step.evaluation_forwards;
    if (!step.is_complete) continue;
    ++(step.is_skipped ? watched.skipped_steps : watched.steps);
  }
  for (const Event& event : rank.events->events) {
    if (has_communicated(event)) add(watched.collectives, event);
    const bool is_backward = event.kind == EventKind::Backward;
    if (is_backward && !accumulates_nothing(event)) ++watched.backwards;
  }
  return watched;
}

std::optional<double> median_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return stats::quantile(values, 0.5);
}

Known<double> known_s(const std::optional<double>& value_s) {
  return value_s ? Known<double>(*value_s) : Unknown{kNoEnds};
}

// Gives the parts their times. What is neither the optimizer nor waiting is the micro-batches'.
void divide_time(TypicalStep& typical, std::optional<double> optimizer_s,
                 std::optional<double> synchronization_s) {
  if (!typical.parts || !synchronization_s) return;
  const double rest_s = *typical.step_s - *optimizer_s - typical.synchronized * *synchronization_s;
  if (rest_s < 0) return;  // steps that overlap each other, or medians of too different steps
  StepParts parts = *typical.parts;
  parts.fixed_s = optimizer_s;
  parts.micro_batch_s = rest_s / typical.micro_batches;
  parts.synchronization_s = synchronization_s;
  typical.parts = std::move(parts);
}

// Steps whose times may go into one median: those that are known on the GPU, or else all.
Counted timed_alike(const UsualStep& usual) {
  Counted on_gpu;
  for (const StepCounts* step : usual.all) {
    if (step->on_gpu) on_gpu.push_back(step);
  }
  return on_gpu.empty() ? usual.all : on_gpu;
}

void add_times(TypicalStep& typical, const std::vector<Examined>& ranks, const UsualStep& usual) {
  const std::span<const Examined> compared = comparable(ranks);
  std::vector<double> steps_s;
  std::vector<double> optimizers_s;
  std::vector<double> excesses_s;
  std::vector<double> synchronizations_s;
  std::vector<double> replicas_s;
  const auto keep = [](std::vector<double>& values, const std::optional<double>& value) {
    if (value) values.push_back(*value);
  };
  for (const StepCounts* step : timed_alike(usual)) {
    steps_s.push_back(step->duration_s());
    optimizers_s.push_back(step->optimizer_s());
    const auto index = static_cast<std::size_t>(step - ranks[0].counts.data());
    keep(excesses_s, waited_s(compared, index, &StepCounts::excess_ns));
    keep(replicas_s, waited_s(compared, index, &StepCounts::replicas_excess_ns));
    keep(synchronizations_s, waited_s(compared, index, &StepCounts::synchronization_ns));
  }
  typical.step_s = median_of(steps_s);
  typical.excess_s = known_s(median_of(excesses_s));
  typical.policies = policies_of(*usual.example, *ranks[0].events,
                                 {known_s(median_of(replicas_s)), typical.excess_s});
  divide_time(typical, median_of(optimizers_s), median_of(synchronizations_s));
}

std::optional<TypicalStep> typical_step(const std::vector<Examined>& ranks) {
  const auto usual = usual_step(ranks[0].counts);
  if (!usual) return std::nullopt;
  TypicalStep typical;
  typical.micro_batches = usual->micro_batches;
  typical.synchronized = usual->synchronized;
  typical.steps = static_cast<int>(usual->all.size());
  typical.collectives = usual->example->collectives;
  typical.excess = usual->example->excess;
  typical.ideal = without(typical.collectives, typical.excess);
  typical.axes = axes_of(*usual->example, ranks[0].events->groups);
  typical.gpu = usual_on_gpu(*ranks[0].events, *usual);
  if (usual->example->parts) {
    typical.parts = *usual->example->parts;
  } else {
    typical.parts = Unknown{typical.synchronized == 0 ? "no micro-batch of it synchronizes"
                                                      : "its micro-batches are not alike"};
  }
  add_times(typical, ranks, *usual);
  return typical;
}

// Those of the first rank; where another one is judged otherwise, nothing is certain. What the file
// of one rank does not hold is not known of the job.
std::vector<Verdict> agreed_verdicts(const std::vector<Examined>& ranks) {
  const auto lacks = std::ranges::find_if(
      ranks, [](const Examined& rank) { return rank.verdicts[0].kind == VerdictKind::NotInFile; });
  if (lacks != ranks.end()) return lacks->verdicts;
  for (const Examined& rank : ranks) {
    if (rank.verdicts[0].kind == ranks[0].verdicts[0].kind) continue;
    return {not_recognised(Cause::RanksDisagree,
                           {.given = fmt::format("rank {}: {}; rank {}: {}", ranks[0].events->rank,
                                                 ranks[0].verdicts[0].sentence, rank.events->rank,
                                                 rank.verdicts[0].sentence)})};
  }
  return ranks[0].verdicts;
}

bool agree_on_models(const std::vector<Examined>& ranks) {
  const auto is_alike = [](const ModelVerdict& a, const ModelVerdict& b) {
    return a.wrapper == b.wrapper && a.verdict.kind == b.verdict.kind;
  };
  return std::ranges::all_of(ranks, [&](const Examined& rank) {
    return std::ranges::equal(rank.models, ranks[0].models, is_alike);
  });
}

std::vector<std::string> wrappers_of(const std::vector<Examined>& ranks) {
  std::set<std::string> names;
  for (const Event& event : ranks[0].events->events) {
    if (event.kind == EventKind::Forward) names.insert(event.name);
  }
  return {names.begin(), names.end()};
}

// A reduction by hand of what the wrapper has reduced is excess, too. It is not timed by itself.
void add_reduced_again(TypicalStep& typical, const std::vector<const Exchange*>& reduced_again) {
  if (typical.axes.size() > 1) return;
  OpSums again;
  for (const Exchange* exchange : reduced_again) {
    add(again, exchange->name, {exchange->calls, exchange->bytes});
  }
  for (const auto& [op, sum] : again) {
    if (sum_of(typical.ideal, op).count <= sum.count) return;  // not in every step
  }
  if (again.empty()) return;
  add(typical.excess, again);
  typical.ideal = without(typical.collectives, typical.excess);
  typical.excess_s = Unknown{"what is reduced again by hand is not timed"};
}

// The numbers accuse no more than the words.
void claim_no_excess(TypicalStep& typical) {
  typical.excess.clear();
  typical.ideal = typical.collectives;
  for (Axis& axis : typical.axes) {
    axis.excess.clear();
    axis.ideal = axis.collectives;
  }
  typical.policies.clear();
  const Unknown because{"it is not recognised what would be enough"};
  typical.excess_s = because;
  typical.parts = because;
}

// Whether every rank reads what the micro-batches of all ranks add, in equal parts.
bool all_read_all(const account::GradientAccount& account) {
  const account::StepAccount& step = account.shown;
  const auto is_of_all = [&](const account::WeightGroup& group) {
    return std::ssize(group.ranks) == step.world_size && group.readers.size() == group.ranks.size();
  };
  return account.verdicts.front().kind == account::AccountKind::Equal && step.world_size > 1 &&
         std::ranges::all_of(step.groups, is_of_all);
}

void add_faults(Watched& watched, const std::vector<RankEvents>& processes) {
  const auto seen = std::ssize(watched.ranks);
  const bool are_of_files = std::ranges::any_of(
      processes, [](const RankEvents& process) { return process.is_imported(); });
  if (are_of_files && seen < watched.world_size) {
    watched.faults.push_back(
        fmt::format("files of {} of {} ranks were given", seen, watched.world_size));
  } else if (watched.world_size > 1 && seen < watched.world_size) {
    watched.faults.push_back(fmt::format(
        "{} of {} ranks were seen: the others ran without the watcher, or on other hosts, "
        "whose folders of --keep gradsync report puts together",
        seen, watched.world_size));
  }
  std::set<std::string> told;
  for (const RankEvents& process : processes) {
    for (const std::string& fault : process.faults) {
      if (told.insert(fault).second) watched.faults.push_back(fault);
    }
  }
}

// Takes away every number of seconds of a job that ran on GPUs of paper, and says why.
void take_away_times(const std::string& gpus, Watched& watched) {
  const std::string because =
      fmt::format("{} ({}); replicas were not compared", paper::kNothingComputed, gpus);
  watched.faults.push_back(because);
  watched.series = unknown_series(because);
  for (Waste& waste : watched.wastes) waste.saved_s = Unknown{because};
  for (WatchedRank& rank : watched.ranks) rank.gpu.reset();
  if (!watched.typical) return;
  TypicalStep& typical = *watched.typical;
  typical.step_s.reset();
  typical.gpu.reset();
  typical.excess_s = Unknown{because};
  typical.parts = Unknown{because};
  for (Policy& policy : typical.policies) policy.saved_s = Unknown{because};
}

}  // namespace

Watched summarize(const std::vector<RankEvents>& processes) {
  Watched watched;
  const std::vector<Examined> ranks = examined(processes);
  for (const Examined& rank : ranks) {
    watched.world_size = std::max(watched.world_size, rank.events->world_size);
    watched.ranks.push_back(watched_rank(rank));
  }
  if (ranks.empty()) {
    watched.verdicts = {no_torch()};
  } else {
    watched.wrappers = wrappers_of(ranks);
    if (agree_on_models(ranks)) watched.models = ranks[0].models;
    watched.flags = flags_of(*ranks[0].events);
    watched.typical = typical_step(ranks);
    if (ranks[0].models.empty()) watched.kinds = other_kinds(*ranks[0].events, ranks[0].counts);
    watched.wastes = wastes_of(comparable(ranks));
    watched.verdicts = agreed_verdicts(ranks);
    std::vector<const Exchange*> reduced_again;
    if (watched.typical && watched.typical->synchronized > 0) {
      reduced_again = exchanges_of_equals(events_of(ranks));
      add_reduced_again(*watched.typical, reduced_again);
    }
    add_parameter_verdicts(watched.verdicts, ranks, reduced_again);
    if (watched.typical && is_unjudged(watched.verdicts[0].kind)) {
      claim_no_excess(*watched.typical);
    }
  }
  watched.series = series_of_job(watched, ranks);
  add_faults(watched, processes);
  const auto on_paper = std::ranges::find_if(
      processes, [](const RankEvents& process) { return !process.gpus_of_paper.empty(); });
  if (on_paper != processes.end()) take_away_times(on_paper->gpus_of_paper, watched);
  return watched;
}

void add_account(Watched& watched, std::optional<account::GradientAccount> account) {
  watched.account = std::move(account);
  if (!watched.account) return;
  Verdict& first = watched.verdicts.front();
  const bool denies =
      first.fails && (first.kind == VerdictKind::Never || first.kind == VerdictKind::TooEarly);
  if (denies && all_read_all(*watched.account)) {
    first = not_recognised(Cause::AccountDisagrees, {.given = first.sentence});
    if (watched.typical) claim_no_excess(*watched.typical);
  }
  if (has_excess(watched)) return;
  if (const auto* off = account::first_off(*watched.account)) {
    say_account(first, "fails", off->sentence);
  } else if (!watched.account->lost.empty()) {
    say_account(first, "is lost", account::lost_text(watched.account->lost));
  }
}

bool knows_what_is_enough(const Watched& watched) {
  const VerdictKind kind = watched.verdicts.front().kind;
  return !is_unjudged(kind) && kind != VerdictKind::Never && kind != VerdictKind::ReplicasNever;
}

bool was_judged(const Watched& watched) {
  const VerdictKind kind = watched.verdicts.front().kind;
  return !is_unjudged(kind) && kind != VerdictKind::NoSteps;
}

bool has_excess(const Watched& watched) {
  return std::any_of(watched.verdicts.begin(), watched.verdicts.end(),
                     [](const Verdict& verdict) { return verdict.fails; });
}

ExitStatus gate_status(const Watched& watched) {
  const auto& account = watched.account;
  if (has_excess(watched) || (account && is_off(*account))) return ExitStatus::Regression;
  const bool is_lost = account && !account->lost.empty();
  return was_judged(watched) && !is_lost ? ExitStatus::Ok : ExitStatus::Unfit;
}

}  // namespace gradsync::watch
