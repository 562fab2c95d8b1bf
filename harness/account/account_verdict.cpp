#include "harness/account/account_verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "harness/account/account_words.h"
#include "harness/account/separate.h"
#include "harness/account/weight_words.h"

namespace gradsync::account {
namespace {

using stats::FittedWeight;

// Larger, and a foreign part of a gradient passes for rounding: bf16 leaves 0.003 over, and a comm
// hook in 16 bits under gradients of 32 as much.
constexpr double kForeign = 0.02;
constexpr double kSameFactor = 5e-3;
constexpr std::size_t kMostFactors = 4;

bool is_power_sgd(const std::string& comm_hook) {
  return comm_hook.find("owerSGD") != std::string::npos;
}

// Whether gradients were clipped between two micro-batches of this group: what the second adds is
// clipped otherwise. Nothing else may change them, as a communication hook does.
bool is_clipped_too_soon(const StepAccount& account, const WeightGroup& group) {
  if (account.is_used || !account.comm_hook.empty()) return false;
  std::set<int> own;
  for (const auto& of_rank : group.weights) {
    for (std::size_t m = 0; m < of_rank.size(); ++m) {
      if (of_rank[m].kind != FittedWeight::Kind::Absent) own.insert(static_cast<int>(m));
    }
  }
  return std::ranges::any_of(account.calls, [&](const GradientCall& call) {
    const bool is_between =
        !own.empty() && *own.begin() < call.after && call.after <= *own.rbegin();
    return !clears(call.what) && is_between;
  });
}

AccountVerdict not_a_sum(const StepAccount& account, const WeightGroup& group) {
  const bool is_all = account.groups.size() == 1;
  AccountVerdict verdict{
      AccountKind::NotASum,
      fmt::format("not a sum of these gradients: {} is left over{}", percent_text(group.left_over),
                  is_all ? "" : " of " + names_text(group.parameters)),
      "", false};
  const std::string clipped = clipping_text(account);
  if (group.is_of_the_step_before) {
    verdict.why = "it is a sum of those of the step before: it comes a step late";
    verdict.is_off = true;
  } else if (group.has_the_step_before) {
    verdict.why =
        "what the optimizer read in the step before is in it once more: it was not cleared";
    verdict.is_off = true;
  } else if (group.decay) {
    verdict.why = fmt::format(
        "{:.3g} x the parameters themselves explain it: weight decay is in "
        "the gradient",
        *group.decay);
  } else if (!clipped.empty()) {
    verdict.why = clipped;
    verdict.is_off = is_clipped_too_soon(account, group);
  } else if (is_power_sgd(account.comm_hook)) {
    verdict.why = fmt::format(
        "the communication hook {} is lossy: PowerSGD sends less than there is", account.comm_hook);
  } else if (!account.comm_hook.empty()) {
    verdict.why = fmt::format("the communication hook {} sends gradients, and may change them",
                              account.comm_hook);
  }
  return verdict;
}

// Shards are cut by size, not by layer: that two parameters or more have the same factors by rank,
// or that gradients were clipped, is no layer's own scale.
AccountVerdict judge_shards(const StepAccount& account, const WeightGroup& group) {
  const bool are_clipped = std::ranges::any_of(account.calls, [](const GradientCall& call) {
    return call.what == GradientCallKind::ClipNorm;
  });
  return {AccountKind::ShardsApart, shards_text(group.shards, are_clipped),
          shards_clipped_text(account.calls), are_clipped || group.divided > 1};
}

// Whether all these micro-batches ran backward from other functions than the rest: for something
// else than the gradient that is read, as an attack on the model does.
bool ran_elsewhere(const StepAccount& account, const std::vector<std::size_t>& lost) {
  std::set<int> of_lost;
  std::set<int> of_rest;
  for (std::size_t m = 0; m < account.functions.size(); ++m) {
    const bool is_lost = std::ranges::find(lost, m) != lost.end();
    (is_lost ? of_lost : of_rest).insert(account.functions[m]);
  }
  return std::ranges::none_of(of_lost, [&](int place) { return of_rest.contains(place); }) &&
         !of_lost.empty() && !of_rest.empty();
}

// Whether the job set gradients to zero itself, which it had read for that, or for more: it did so
// for nothing else where all its micro-batches ran from the same lines.
bool may_be_read(const StepAccount& account) {
  const bool is_by_hand = std::ranges::any_of(account.calls, [](const GradientCall& call) {
    return call.what == GradientCallKind::SetToZero;
  });
  return is_by_hand && std::ranges::any_of(account.places, [](int place) { return place != 0; });
}

AccountVerdict dropped(const StepAccount& account, const WeightWords& words,
                       const std::string& sentence, const std::string& used) {
  const std::vector<std::size_t> lost = words.lost();
  AccountVerdict verdict{AccountKind::Dropped, sentence, used, !account.is_used};
  if (!lost.empty() && lost.back() + 1 == lost.size()) verdict.lost = static_cast<int>(lost.size());
  if (used.empty() && cleared_text(account.calls, verdict.lost).empty()) {
    verdict.why = clipping_text(account);
  }
  if (may_be_read(account)) verdict.is_off = false;
  if (verdict.is_off && ran_elsewhere(account, lost)) {
    verdict.is_off = false;
    verdict.why =
        "another function of the job ran their backward: their gradients may have been for it";
  }
  return verdict;
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
    return {AccountKind::NotToldApart, "its contributions cannot be distinguished",
            fmt::format("their gradients are too much alike: condition {:.2g}", group.condition),
            false};
  }
  if (const std::string lost = words.lost_micro_batches(); !lost.empty()) {
    return dropped(account, words, lost, used);
  }
  if (const std::string unequal = words.unequal(); !unequal.empty()) {
    if (group.is_rounded && words.spread() < 0.25) {
      return {AccountKind::Rounded, fmt::format("gradients of 16 bits: {}", words.rounded()), "",
              false};
    }
    if (const std::string tokens = words.by_tokens(); !tokens.empty()) {
      return {AccountKind::ByTokens, tokens, unequal, false};
    }
    return {AccountKind::Unequal, unequal, clipping_text(account), true};
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
    const auto same = std::ranges::find_if(
        by_factor, [&](const auto& known) { return are_same_factor(known.first, factor); });
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
    if (are_same_factor(factor, rest)) continue;
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

// Whether gradients were clipped while a scale of mixed precision was on them: what is left is then
// divided by a power of two, to a norm that none would ask for.
bool is_clipped_while_scaled(const StepAccount& account) {
  constexpr double kLeastScale = 16;
  constexpr double kLeastNorm = 1e-3;
  const double scale = account.scaled_after > 0 ? 1 / account.scaled_after : 1;
  const bool is_scale = scale >= kLeastScale * (1 - kSameFactor) &&
                        are_same_factor(scale, std::exp2(std::round(std::log2(scale))));
  return account.clippings == 1 && is_scale && account.max_norm > 0 &&
         account.max_norm < kLeastNorm * scale && account.clipped_by < 1 - kSameFactor;
}

AccountVerdict clipped_while_scaled(const StepAccount& account) {
  const double scale = std::exp2(std::round(-std::log2(account.scaled_after)));
  return {AccountKind::Factor,
          fmt::format("gradients were clipped while they were scaled by {:.0f}: of the norm {:.3g} "
                      "{:.3g} is left",
                      scale, account.max_norm, account.max_norm / scale),
          "divide them by the scale first (GradScaler.unscale_)" + clipped_text(account.calls),
          true};
}

std::optional<AccountVerdict> judge_factor(const StepAccount& account) {
  const WeightGroup& group = account.groups[0];
  const double factor = factor_of(account, group);
  const auto ranks = static_cast<double>(group.ranks.size());
  const double micro_batches = account.micro_batches;
  if (are_same_factor(factor, 1) || factor == 0) return std::nullopt;
  if (is_clipped_while_scaled(account)) return clipped_while_scaled(account);
  AccountVerdict verdict{AccountKind::Factor,
                         fmt::format("all weigh {:.4g} x what the loss says", factor), "", false};
  if (account.clippings > 0 && factor < 1) {
    verdict.sentence = fmt::format("a common factor of {:.4g}: gradients are clipped", factor);
  } else if (are_same_factor(factor, ranks)) {
    verdict.sentence += fmt::format(": summed over {:.0f} ranks, not averaged", ranks);
  } else if (are_same_factor(factor, 1 / ranks)) {
    verdict.sentence += fmt::format(": divided by {:.0f} ranks once more", ranks);
  } else if (are_same_factor(factor, 1 / micro_batches)) {
    verdict.sentence +=
        fmt::format(": averaged over {:.0f} micro-batches behind the loss", micro_batches);
  } else if (are_same_factor(factor, 1 / micro_batches / ranks)) {
    verdict.sentence += fmt::format(": divided by {:.0f} micro-batches and {:.0f} ranks once more",
                                    micro_batches, ranks);
  } else if (are_same_factor(factor, micro_batches)) {
    verdict.sentence += fmt::format(": once for each of {:.0f} micro-batches", micro_batches);
  }
  return verdict;
}

}  // namespace

bool are_same_factor(double value, double other) {
  return std::abs(value - other) <= kSameFactor * std::abs(other);
}

bool is_good(AccountKind kind) {
  return kind == AccountKind::Equal || kind == AccountKind::NotToldApart ||
         kind == AccountKind::Rounded || kind == AccountKind::ByTokens;
}

double factor_of(const StepAccount& account, const WeightGroup& group) {
  std::size_t replicas = 1;
  for (const WeightGroup& each : account.groups) replicas = std::max(replicas, each.ranks.size());
  return group.mean() * static_cast<double>(replicas) * account.loss_scale;
}

std::vector<AccountVerdict> judge_account(const StepAccount& account) {
  if (account.groups.empty()) return {{AccountKind::Unknown, account.why_not, "", false}};
  for (const WeightGroup& group : account.groups) {
    if (!group.shards.empty()) return {judge_shards(account, group)};
  }
  for (const WeightGroup& group : account.groups) {
    if (group.left_over > kForeign) return {not_a_sum(account, group)};
  }
  if (auto separate = judge_separate(account)) return {std::move(*separate)};
  std::vector<AccountVerdict> verdicts;
  for (const WeightGroup& group : account.groups) verdicts.push_back(judge_weights(account, group));
  const auto bad = std::ranges::find_if(
      verdicts, [](const AccountVerdict& each) { return !is_good(each.kind); });
  if (bad != verdicts.end()) {
    const auto group = account.groups.begin() + (bad - verdicts.begin());
    if (account.groups.size() > 1) bad->sentence += " in " + names_text(group->parameters);
    bad->sentence += cleared_text(account.calls, bad->lost);
    return {*bad};
  }
  verdicts.resize(1);
  if (auto groups = judge_groups(account)) return {std::move(*groups)};
  // What rounding took is no factor of the loss's.
  if (verdicts[0].kind == AccountKind::Rounded) return verdicts;
  if (auto factor = judge_factor(account)) verdicts.push_back(std::move(*factor));
  return verdicts;
}

}  // namespace gradsync::account
