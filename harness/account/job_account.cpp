// Makes the account of a job from the verdicts on its steps.
//
// Steps are of one kind where they have the same kind of verdict and as many micro-batches. A job
// is off where most of its steps are, or where steps of a kind that has no innocent reason are:
// shards scaled apart, ranks of one model that read their own gradients alone, dropped windows. A
// window counts as dropped where the first micro-batches of several steps ran from the same lines
// as the rest and were cleared unread, as many in each step, and fewer than a usual step has: a job
// that skips a step on purpose clears a whole one.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "harness/account/account_verdict.h"
#include "harness/account/account_words.h"
#include "harness/account/separate.h"

namespace gradsync::account {
namespace {

using stats::FittedWeight;

constexpr std::size_t kSeveral = 2;
// So many good kinds get a line each.
constexpr std::size_t kMostGood = 3;

struct JudgedStep {
  StepAccount account;
  std::vector<AccountVerdict> verdicts;

  AccountKind kind() const { return verdicts.front().kind; }
  bool is_off() const { return std::ranges::any_of(verdicts, &AccountVerdict::is_off); }
};

using JudgedSteps = std::vector<const JudgedStep*>;
using KindKey = std::pair<AccountKind, int>;  // and micro-batches

// By how common they are, the commonest first; of kinds that are as common as each other the worse
// one: nothing is hidden by a tie. Steps of which nothing is known come last.
std::vector<JudgedSteps> kinds_of(const std::vector<JudgedStep>& steps) {
  std::map<KindKey, JudgedSteps> by_kind;
  std::map<AccountKind, std::size_t> counts;
  for (const JudgedStep& step : steps) {
    by_kind[{step.kind(), step.account.micro_batches}].push_back(&step);
    ++counts[step.kind()];
  }
  std::vector<JudgedSteps> kinds;
  for (auto& [key, alike] : by_kind) kinds.push_back(std::move(alike));
  const auto order = [&](const JudgedSteps& alike) {
    const AccountKind kind = alike.front()->kind();
    return std::tuple(kind != AccountKind::Unknown, counts[kind], !is_good(kind), alike.size());
  };
  std::ranges::stable_sort(kinds, std::greater(), order);
  std::ranges::stable_sort(kinds.begin() + 1, kinds.end(), std::greater(), &JudgedSteps::size);
  return kinds;
}

// The first of them; of a job that is off the first that is, since less is known of its first step.
const JudgedStep& shown_of(const JudgedSteps& alike, bool are_mostly_off) {
  const auto off = std::ranges::find_if(alike, &JudgedStep::is_off);
  return are_mostly_off && off != alike.end() ? **off : *alike.front();
}

bool was_clipped_before_cleared(const StepAccount& step, int lost) {
  for (const GradientCall& call : step.calls) {
    if (clears(call.what) && call.after == lost) return false;
    if (!clears(call.what) && call.after <= lost) return true;
  }
  return false;
}

// Whether the first micro-batches ran backward from lines from which others did that were read.
bool ran_as_the_rest(const StepAccount& step, int lost) {
  if (std::ssize(step.places) <= lost) return false;
  const auto rest = step.places.begin() + lost;
  return std::all_of(step.places.begin(), rest, [&](int place) {
    return std::find(rest, step.places.end(), place) != step.places.end();
  });
}

class Certainty {
 public:
  Certainty(const std::vector<JudgedStep>& steps, int usual_micro_batches, const SeenBeside& beside)
      : usual_micro_batches_(usual_micro_batches), cleared_(beside.cleared) {
    std::vector<const StepAccount*> separate;
    std::map<int, std::size_t> accounted;
    for (const JudgedStep& step : steps) {
      if (step.kind() == AccountKind::Dropped) ++accounted[step.verdicts.front().lost];
      if (step.kind() == AccountKind::Separate || !separate.empty()) {
        separate.push_back(&step.account);
      }
    }
    for (const auto& [lost, count] : accounted) cleared_[lost] = std::max(cleared_[lost], count);
    are_apart_ = !separate.empty() && are_apart_for_good(separate, beside);
  }

  // Whether steps of this kind are off however common they are.
  bool operator()(const JudgedSteps& alike) const {
    const AccountVerdict& verdict = alike.front()->verdicts.front();
    const bool are_several = alike.size() >= kSeveral;
    switch (verdict.kind) {
      case AccountKind::ShardsApart:
        return are_several && verdict.is_off;
      case AccountKind::NotASum:
        return are_several && std::ranges::all_of(alike, [](const JudgedStep* step) {
                 return std::ranges::any_of(step->account.groups,
                                            &WeightGroup::has_the_step_before);
               });
      case AccountKind::Separate:
        return are_several && are_apart_;
      case AccountKind::Dropped:
        return cleared_.size() == 1 && cleared_.begin()->second >= kSeveral &&
               std::ranges::all_of(
                   alike, [&](const JudgedStep* step) { return is_dropped_window(*step); });
      default:
        return false;
    }
  }

 private:
  bool is_dropped_window(const JudgedStep& step) const {
    const AccountVerdict& verdict = step.verdicts.front();
    return verdict.is_off && 0 < verdict.lost && verdict.lost < usual_micro_batches_ &&
           ran_as_the_rest(step.account, verdict.lost) &&
           !was_clipped_before_cleared(step.account, verdict.lost);
  }

  int usual_micro_batches_;
  std::map<int, std::size_t> cleared_;  // steps that drop micro-batches, by how many
  bool are_apart_ = false;
};

// What all of a step weigh beside what those of the usual one do; "" where it is the same, or
// clipping made it so.
std::string factor_beside(const StepAccount& step, const JudgedStep& usual_step) {
  const StepAccount& usual = usual_step.account;
  if (step.groups.empty() || step.clippings > 0) return "";
  const double factor = factor_of(step, step.groups[0]);
  const double ratio =
      is_good(usual_step.kind()) ? factor / factor_of(usual, usual.groups[0]) : factor;
  if (are_same_factor(ratio, 1)) return "";
  if (are_same_factor(ratio * step.micro_batches, usual.micro_batches)) {
    return ", " + made_up_text(factor, step.micro_batches, usual.micro_batches);
  }
  return fmt::format(", {:.4g} x what the loss says", factor);
}

AccountVerdict on_others(const JudgedSteps& alike, const JudgedStep& usual, int steps) {
  const JudgedStep& first = *alike.front();
  AccountVerdict verdict = first.verdicts.front();
  verdict.steps = static_cast<int>(alike.size());
  const bool says_how_many = verdict.kind == AccountKind::Dropped;
  const int micro_batches = first.account.micro_batches;
  std::string sentence = verdict.sentence;
  if (verdict.why.empty() && verdict.lost >= usual.account.micro_batches) {
    verdict.why = "these are as many as a step has: the job may skip it on purpose";
  }
  if (is_good(verdict.kind)) sentence += factor_beside(first.account, usual);
  verdict.sentence = in_steps_text(
      verdict.steps, steps,
      says_how_many || micro_batches == usual.account.micro_batches ? 0 : micro_batches, sentence);
  return verdict;
}

// Good kinds beyond those share one line.
AccountVerdict on_many_good(const std::vector<const JudgedSteps*>& kinds, int steps) {
  AccountVerdict verdict{AccountKind::Equal, "", "", false};
  int least = kinds.front()->front()->account.micro_batches;
  int most = least;
  for (const JudgedSteps* alike : kinds) {
    verdict.steps += static_cast<int>(alike->size());
    least = std::min(least, alike->front()->account.micro_batches);
    most = std::max(most, alike->front()->account.micro_batches);
  }
  verdict.sentence = fmt::format("in {} of {} steps, of {} to {} micro-batches, all weigh the same",
                                 verdict.steps, steps, least, most);
  return verdict;
}

std::vector<AccountVerdict> on_other_kinds(const std::vector<JudgedSteps>& kinds,
                                           const Certainty& is_certain, bool are_mostly_off,
                                           int steps) {
  const JudgedStep& usual = *kinds.front().front();
  std::vector<AccountVerdict> verdicts;
  std::vector<const JudgedSteps*> good;
  for (std::size_t i = 1; i < kinds.size(); ++i) {
    if (is_good(kinds[i].front()->kind())) {
      const bool is_like_usual = is_good(usual.kind()) && kinds[i].front()->account.micro_batches ==
                                                              usual.account.micro_batches;
      if (!is_like_usual) good.push_back(&kinds[i]);
      continue;
    }
    AccountVerdict verdict = on_others(kinds[i], usual, steps);
    const bool is_certainly_off = is_certain(kinds[i]);
    verdict.is_off = is_certainly_off || (verdict.is_off && are_mostly_off);
    verdicts.push_back(std::move(verdict));
  }
  if (good.size() > kMostGood) {
    verdicts.push_back(on_many_good(good, steps));
  } else {
    for (const JudgedSteps* alike : good) verdicts.push_back(on_others(*alike, usual, steps));
  }
  return verdicts;
}

// What the losses of a step, each a mean over its micro-batch, weigh together in what the optimizer
// reads: 1 where that is a mean over all. 0: not known.
double share_of_losses(const StepAccount& step) {
  if (step.groups.empty() || step.clippings > 1) return 0;
  const WeightGroup& group = step.groups[0];
  const double clipped_by = step.clippings == 0 ? 1 : step.clipped_by;
  double sum = 0;
  for (std::size_t r = 0; r < group.ranks.size(); ++r) {
    const auto losses = step.loss_weights.find(group.ranks[r]);
    const std::vector<FittedWeight>& weights = group.weights[r];
    if (losses == step.loss_weights.end() || losses->second.size() != weights.size()) return 0;
    for (std::size_t m = 0; m < weights.size(); ++m) {
      if (losses->second[m] == 0 || weights[m].kind != FittedWeight::Kind::Known) return 0;
      sum += losses->second[m] * weights[m].weight;
    }
  }
  return clipped_by > 0 ? sum / clipped_by : 0;
}

// Where steps of the usual number of micro-batches take the mean over these, those of another
// number are off if they divide by the usual one: their mean is over as many as there are.
std::optional<AccountVerdict> judge_windows(const std::vector<JudgedStep>& steps) {
  std::map<int, std::size_t> whole;  // by micro-batches
  for (const JudgedStep& step : steps) {
    const bool is_mean = are_same_factor(share_of_losses(step.account), 1);
    if (is_good(step.kind()) && is_mean) ++whole[step.account.micro_batches];
  }
  if (whole.size() != 1 || whole.begin()->first < 2 || whole.begin()->second < kSeveral) {
    return std::nullopt;
  }
  const int usual = whole.begin()->first;
  std::set<int> lengths;
  int count = 0;
  for (const JudgedStep& step : steps) {
    const int length = step.account.micro_batches;
    const double share = static_cast<double>(length) / usual;
    const bool is_off = length != usual && is_good(step.kind()) &&
                        are_same_factor(share_of_losses(step.account), share);
    if (!is_off) continue;
    lengths.insert(length);
    ++count;
  }
  if (count < static_cast<int>(kSeveral)) return std::nullopt;
  return AccountVerdict{AccountKind::Windows,
                        windows_text(count, static_cast<int>(steps.size()), usual, lengths),
                        "divide by as many as the step has", true, count};
}

// A stage of a pipeline adds nothing to the parameters of another one, be they called alike.
void excuse_parts(AccountVerdict& verdict) {
  if (verdict.kind != AccountKind::RankLost) return;
  verdict.is_off = false;
  if (verdict.why.empty()) verdict.why = kOtherParts;
}

// Parameters that one rank has, as a head for its own data, count its own micro-batches alone:
// where ranks exchange no activations, that is their whole gradient.
void excuse_own_parameters(AccountVerdict& verdict, const StepAccount& step) {
  if (verdict.kind != AccountKind::GroupsDiffer) return;
  const double rest = factor_of(step, step.groups[0]);
  if (rest < 0) return;
  const auto is_explained = [&](const WeightGroup& group) {
    const double share =
        static_cast<double>(step.groups[0].ranks.size()) / static_cast<double>(group.ranks.size());
    return are_same_factor(factor_of(step, group), rest * share);
  };
  if (!std::ranges::all_of(step.groups, is_explained)) return;
  verdict.is_off = false;
  verdict.why = kOwnParameters;
}

// Returns those of the ranks that `stepped` which left no step.
std::vector<int> lost_of(const std::vector<int>& stepped,
                         const std::vector<AccountRecords>& records) {
  std::vector<int> lost;
  std::ranges::copy_if(stepped, std::back_inserter(lost), [&](int rank) {
    return std::ranges::none_of(records, [&](const AccountRecords& process) {
      return process.rank == rank && !process.steps.empty();
    });
  });
  return lost;
}

GradientAccount account_of_steps(const std::vector<AccountRecords>& ranks,
                                 const SeenBeside& beside) {
  GradientAccount account;
  for (const AccountRecords& process : ranks) {
    account.faults.insert(account.faults.end(), process.faults.begin(), process.faults.end());
  }
  std::vector<JudgedStep> steps;
  std::size_t off = 0;
  for (StepAccount& step : solve_accounts(ranks)) {
    std::vector<AccountVerdict> verdicts = judge_account(step);
    if (beside.has_activations) excuse_parts(verdicts.front());
    if (!beside.has_activations && !beside.exchanges_activations) {
      excuse_own_parameters(verdicts.front(), step);
    }
    steps.push_back({std::move(step), std::move(verdicts)});
    off += steps.back().is_off() ? 1 : 0;
  }
  account.steps = static_cast<int>(steps.size());
  if (steps.empty()) {
    account.verdicts = {{AccountKind::Unknown, "no step was accounted", "", false}};
    return account;
  }
  const std::vector<JudgedSteps> kinds = kinds_of(steps);
  const bool are_mostly_off = 2 * off > steps.size();
  const JudgedStep& usual = shown_of(kinds.front(), are_mostly_off);
  const Certainty is_certain(steps, usual.account.micro_batches, beside);
  account.shown = usual.account;
  account.alike = static_cast<int>(kinds.front().size());
  account.verdicts = usual.verdicts;
  for (AccountVerdict& verdict : account.verdicts) {
    verdict.steps = account.alike;
    verdict.is_off = verdict.is_off && are_mostly_off;
  }
  account.verdicts.front().is_off |= is_certain(kinds.front());
  if (auto windows = judge_windows(steps)) account.verdicts.push_back(std::move(*windows));
  const auto drift = std::ranges::find_if(
      steps, [](const JudgedStep& step) { return !step.account.drifted.empty(); });
  if (drift != steps.end()) {
    account.verdicts.push_back(
        {AccountKind::Drifted,
         fmt::format("ranks have other parameters before step {}, {} among them",
                     drift->account.step + 1, drift->account.drifted.front()),
         "they had the same ones in the first step that was accounted", false});
  }
  std::ranges::move(on_other_kinds(kinds, is_certain, are_mostly_off, account.steps),
                    std::back_inserter(account.verdicts));
  return account;
}

}  // namespace

GradientAccount account_of(const std::vector<AccountRecords>& ranks, const SeenBeside& beside) {
  GradientAccount account = account_of_steps(ranks, beside);
  account.lost = lost_of(beside.stepped, ranks);
  AccountVerdict& first = account.verdicts.front();
  if (!account.lost.empty() && first.kind == AccountKind::Unknown) {
    first.sentence = lost_text(account.lost);
  }
  return account;
}

const AccountVerdict* first_off(const GradientAccount& account) {
  const auto off = std::ranges::find_if(account.verdicts, &AccountVerdict::is_off);
  return off == account.verdicts.end() ? nullptr : &*off;
}

bool is_off(const GradientAccount& account) {
  return first_off(account) != nullptr;
}

}  // namespace gradsync::account
