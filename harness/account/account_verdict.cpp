#include "harness/account/account_verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "harness/account/weight_words.h"

namespace gradsync::account {
namespace {

using stats::FittedWeight;

// Larger, and a foreign part of a gradient passes for rounding: bf16 leaves 0.003 over, and a comm
// hook in 16 bits under gradients of 32 as much.
constexpr double kForeign = 0.02;
// Factors that count as the same.
constexpr double kSameFactor = 5e-3;
constexpr std::size_t kMostFactors = 4;

double factor_of(const StepAccount& account, const WeightGroup& group) {
  std::size_t replicas = 1;
  for (const WeightGroup& each : account.groups) replicas = std::max(replicas, each.ranks.size());
  return group.mean() * static_cast<double>(replicas) * account.loss_scale;
}

bool is_near(double value, double other) {
  return std::abs(value - other) <= kSameFactor * std::abs(other);
}

bool is_power_sgd(const std::string& comm_hook) {
  return comm_hook.find("owerSGD") != std::string::npos;
}

AccountVerdict not_a_sum(const StepAccount& account, const WeightGroup& group) {
  const bool is_all = account.groups.size() == 1;
  AccountVerdict verdict{
      AccountKind::NotASum,
      fmt::format("not a sum of these gradients: {} is left over{}", percent_text(group.left_over),
                  is_all ? "" : " of " + names_text(group.parameters)),
      "", false};
  if (group.is_of_the_step_before) {
    verdict.why = "it is a sum of those of the step before: it comes a step late";
    verdict.is_off = true;
  } else if (group.decay) {
    verdict.why = fmt::format(
        "{:.3g} x the parameters themselves explain it: weight decay is in "
        "the gradient",
        *group.decay);
  } else if (is_power_sgd(account.comm_hook)) {
    verdict.why = fmt::format(
        "the communication hook {} is lossy: PowerSGD sends less than there is", account.comm_hook);
  } else if (!account.comm_hook.empty()) {
    verdict.why = fmt::format("the communication hook {} sends gradients, and may change them",
                              account.comm_hook);
  }
  return verdict;
}

// Every rank whose micro-batches weigh something in what the readers of the group read.
std::vector<int> counted_ranks(const WeightGroup& group) {
  std::vector<int> ranks;
  const double mean = group.mean();
  for (std::size_t r = 0; r < group.ranks.size(); ++r) {
    const auto& weights = group.weights[r];
    if (std::any_of(weights.begin(), weights.end(),
                    [&](const FittedWeight& each) { return !is_nothing(each, mean); })) {
      ranks.push_back(group.ranks[r]);
    }
  }
  return ranks;
}

void add_new(std::vector<std::string>& texts, const std::string& text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
}

std::optional<AccountVerdict> judge_separate(const StepAccount& account) {
  std::vector<const WeightGroup*> parts;
  for (const WeightGroup& group : account.groups) {
    if (group.readers.size() < group.ranks.size() && group.ranks == account.groups[0].ranks) {
      parts.push_back(&group);
    }
  }
  if (parts.empty()) return std::nullopt;
  bool are_apart = true;
  std::vector<std::string> readers;
  std::vector<std::string> names;
  for (const WeightGroup* part : parts) {
    are_apart = are_apart && counted_ranks(*part) == part->readers;
    add_new(readers, ranks_text(part->readers));
    for (const std::string& name : part->parameters) add_new(names, name);
  }
  const std::string of_what =
      parts.size() < account.groups.size() ? " of " + names_text(names) : "";
  if (are_apart && readers.size() == parts.front()->ranks.size()) {
    return AccountVerdict{AccountKind::Separate,
                          "every rank reads the gradient of its own micro-batches alone" + of_what,
                          "nothing of the others' is in it", false};
  }
  return AccountVerdict{
      AccountKind::Separate,
      fmt::format("{} read different gradients{}{}", fmt::join(readers, " against "), of_what,
                  are_apart ? ", each of their own micro-batches alone" : ""),
      are_apart ? "they are averaged within groups, and not over all ranks" : "", !are_apart};
}

// On the micro-batches of one group of parameters.
AccountVerdict judge_weights(const StepAccount& account, const WeightGroup& group) {
  const WeightWords words(group);
  if (words.are_zero()) {
    return {AccountKind::Zero, "the gradient that the optimizer reads is 0", "", !account.is_used};
  }
  const std::string used =
      account.is_used ? "gradients were read, or parameters changed, between its micro-batches"
                      : "";
  if (const std::string ranks = words.lost_ranks(); !ranks.empty()) {
    return {AccountKind::RankLost, ranks, used, !account.is_used};
  }
  if (words.are_uncertain()) {
    return {AccountKind::NotToldApart, "its contributions cannot be told apart",
            fmt::format("their gradients are too much alike: condition {:.2g}", group.condition),
            false};
  }
  if (const std::string lost = words.lost_micro_batches(); !lost.empty()) {
    return {AccountKind::Dropped, lost, used, !account.is_used};
  }
  if (const std::string unequal = words.unequal(); !unequal.empty()) {
    if (group.is_rounded && words.spread() < 0.25) {
      return {AccountKind::Rounded, fmt::format("gradients of 16 bits: {}", words.rounded()), "",
              false};
    }
    if (const std::string tokens = words.by_tokens(); !tokens.empty()) {
      return {AccountKind::ByTokens, tokens, unequal, false};
    }
    return {AccountKind::Unequal, unequal, "", true};
  }
  if (const std::string apart = words.not_told_apart(); !apart.empty()) {
    return {AccountKind::NotToldApart, apart, "they contributed equal gradients", false};
  }
  return {AccountKind::Equal,
          fmt::format("all {} weigh the same within {}", group.unknowns(),
                      percent_text(std::max(words.spread(), words.largest_error()))),
          "", false};
}

std::optional<AccountVerdict> judge_groups(const StepAccount& account) {
  std::map<double, std::vector<const WeightGroup*>> by_factor;
  for (const WeightGroup& group : account.groups) {
    const double factor = factor_of(account, group);
    const auto same = std::find_if(by_factor.begin(), by_factor.end(),
                                   [&](const auto& known) { return is_near(known.first, factor); });
    (same == by_factor.end() ? by_factor[factor] : same->second).push_back(&group);
  }
  if (by_factor.size() < 2) return std::nullopt;
  if (by_factor.size() > kMostFactors) {
    return AccountVerdict{AccountKind::GroupsDiffer,
                          fmt::format("parameters have factors of their own, from {:.3g} to {:.3g}",
                                      by_factor.begin()->first, by_factor.rbegin()->first),
                          "as where each is clipped by itself", false};
  }
  const double rest = factor_of(account, account.groups[0]);
  std::vector<std::string> words;
  for (const auto& [factor, groups] : by_factor) {
    if (is_near(factor, rest)) continue;
    std::vector<std::string> names;
    for (const WeightGroup* group : groups) {
      for (const std::string& name : group->parameters) add_new(names, name);
    }
    words.push_back(fmt::format("{} {} {:.4g} x the rest", names_text(names),
                                names.size() == 1 ? "weighs" : "weigh", factor / rest));
  }
  const bool may_be_clipping = account.clippings > 1;
  return AccountVerdict{AccountKind::GroupsDiffer, fmt::format("{}", fmt::join(words, "; ")),
                        may_be_clipping ? "parts of them were clipped apart" : "",
                        !may_be_clipping};
}

std::optional<AccountVerdict> judge_factor(const StepAccount& account) {
  const WeightGroup& group = account.groups[0];
  const double factor = factor_of(account, group);
  const auto ranks = static_cast<double>(group.ranks.size());
  const double micro_batches = account.micro_batches;
  if (is_near(factor, 1) || factor == 0) return std::nullopt;
  AccountVerdict verdict{AccountKind::Factor,
                         fmt::format("all weigh {:.4g} x what the loss says", factor), "", false};
  if (account.clippings > 0 && factor < 1) {
    verdict.sentence = fmt::format("a common factor of {:.4g}: gradients are clipped", factor);
  } else if (is_near(factor, ranks)) {
    verdict.sentence += fmt::format(": summed over {:.0f} ranks, not averaged", ranks);
  } else if (is_near(factor, 1 / ranks)) {
    verdict.sentence += fmt::format(": divided by {:.0f} ranks once more", ranks);
  } else if (is_near(factor, 1 / micro_batches)) {
    verdict.sentence +=
        fmt::format(": averaged over {:.0f} micro-batches behind the loss", micro_batches);
  } else if (is_near(factor, 1 / micro_batches / ranks)) {
    verdict.sentence += fmt::format(": divided by {:.0f} micro-batches and {:.0f} ranks once more",
                                    micro_batches, ranks);
  } else if (is_near(factor, micro_batches)) {
    verdict.sentence += fmt::format(": once for each of {:.0f} micro-batches", micro_batches);
  }
  return verdict;
}

bool is_good(AccountKind kind) {
  return kind == AccountKind::Equal || kind == AccountKind::NotToldApart ||
         kind == AccountKind::Rounded || kind == AccountKind::ByTokens;
}

}  // namespace

std::vector<AccountVerdict> judge_account(const StepAccount& account) {
  if (account.groups.empty()) return {{AccountKind::Unknown, account.why_not, "", false}};
  for (const WeightGroup& group : account.groups) {
    if (group.left_over > kForeign) return {not_a_sum(account, group)};
  }
  if (auto separate = judge_separate(account)) return {std::move(*separate)};
  std::vector<AccountVerdict> verdicts;
  for (const WeightGroup& group : account.groups) {
    verdicts.push_back(judge_weights(account, group));
  }
  const auto bad = std::find_if(verdicts.begin(), verdicts.end(),
                                [](const AccountVerdict& each) { return !is_good(each.kind); });
  if (bad != verdicts.end()) {
    const auto group = account.groups.begin() + (bad - verdicts.begin());
    if (account.groups.size() > 1) bad->sentence += " in " + names_text(group->parameters);
    return {*bad};
  }
  verdicts.resize(1);
  if (auto groups = judge_groups(account)) return {std::move(*groups)};
  // What rounding took is no factor of the loss's.
  if (verdicts[0].kind == AccountKind::Rounded) return verdicts;
  if (auto factor = judge_factor(account)) verdicts.push_back(std::move(*factor));
  return verdicts;
}

GradientAccount account_of(const std::vector<AccountRecords>& ranks) {
  GradientAccount account;
  for (const AccountRecords& process : ranks) {
    account.faults.insert(account.faults.end(), process.faults.begin(), process.faults.end());
  }
  const std::vector<StepAccount> steps = solve_accounts(ranks);
  account.steps = static_cast<int>(steps.size());
  if (steps.empty()) {
    account.verdicts = {{AccountKind::Unknown, "no step was accounted", "", false}};
    return account;
  }
  std::map<AccountKind, int> counts;
  std::vector<std::vector<AccountVerdict>> verdicts;
  int off = 0;
  for (const StepAccount& step : steps) {
    verdicts.push_back(judge_account(step));
    if (verdicts.back()[0].kind != AccountKind::Unknown) ++counts[verdicts.back()[0].kind];
    off += verdicts.back()[0].is_off ? 1 : 0;
  }
  // Of kinds that are as common as each other the worse one: nothing is hidden by a tie.
  AccountKind commonest = AccountKind::Unknown;
  for (const auto& [kind, count] : counts) {
    if (commonest == AccountKind::Unknown || count > counts[commonest] ||
        (count == counts[commonest] && is_good(commonest))) {
      commonest = kind;
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (verdicts[i][0].kind != commonest) continue;
    if (account.alike++ > 0) continue;
    account.shown = steps[i];
    account.verdicts = verdicts[i];
  }
  const auto drift = std::find_if(steps.begin(), steps.end(),
                                  [](const StepAccount& step) { return !step.drifted.empty(); });
  if (drift != steps.end()) {
    account.verdicts.push_back(
        {AccountKind::Drifted,
         fmt::format("ranks have other parameters before step {}, {} among them", drift->step + 1,
                     drift->drifted),
         "they had the same ones in the first step that was accounted", false});
  }
  if (2 * off <= account.steps) {
    for (AccountVerdict& verdict : account.verdicts) verdict.is_off = false;
  }
  return account;
}

bool is_off(const GradientAccount& account) {
  return std::any_of(account.verdicts.begin(), account.verdicts.end(),
                     [](const AccountVerdict& verdict) { return verdict.is_off; });
}

}  // namespace gradsync::account
