#include "harness/coordinate/trial_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "harness/account/account.h"
#include "harness/account/account_fields.h"
#include "harness/account/account_verdict.h"

namespace gradsync::coordinate {
namespace {

using account::AccountKind;
using account::AccountRecords;
using account::AccountVerdict;
using account::StepAccount;
using account::WeightGroup;
using results::TrialAccount;
using stats::FittedWeight;

// Off is a common factor farther from 1: as account_verdict.cpp has it; of 16 bits, in which the
// first of many micro-batches may lose some per cent.
constexpr double kSameFactor = 5e-3;
constexpr double kSameFactorRounded = 0.25;
// Off is an other's micro-batch that weighs more where nothing is synchronized.
constexpr double kNothing = 5e-3;

// The weights of one group that are to be the same, and those that are to be 0.
struct Weights {
  std::vector<FittedWeight> own;
  std::vector<FittedWeight> others;

  double mean() const {
    double sum = 0;
    for (const FittedWeight& each : own) sum += each.weight;
    return own.empty() ? 0 : sum / static_cast<double>(own.size());
  }
};

Weights weights_of(const WeightGroup& group, bool is_separate) {
  Weights weights;
  for (std::size_t r = 0; r < group.ranks.size(); ++r) {
    const bool reads = std::ranges::find(group.readers, group.ranks[r]) != group.readers.end();
    auto& side = is_separate && !reads ? weights.others : weights.own;
    for (const FittedWeight& each : group.weights[r]) {
      if (each.kind != FittedWeight::Kind::Absent) side.push_back(each);
    }
  }
  return weights;
}

double factor_of(const WeightGroup& group, bool is_separate) {
  const double ranks = is_separate ? 1 : static_cast<double>(group.ranks.size());
  return weights_of(group, is_separate).mean() * ranks;
}

// The farther from 1.
double worse_factor(double a, double b) {
  return std::abs(a - 1) >= std::abs(b - 1) ? a : b;
}

TrialAccount summary_of(const StepAccount& step, bool is_separate) {
  TrialAccount out;
  out.weight_min = std::numeric_limits<double>::infinity();
  out.weight_max = -out.weight_min;
  out.factor = 1;
  std::set<std::pair<int, int>> told;  // rank, micro-batch
  for (const WeightGroup& group : step.groups) {
    const Weights weights = weights_of(group, is_separate);
    const double mean = weights.mean();
    for (const FittedWeight& each : weights.own) {
      out.weight_min = std::min(out.weight_min, each.weight / mean);
      out.weight_max = std::max(out.weight_max, each.weight / mean);
      out.weight_error = std::max(out.weight_error, each.error / std::abs(mean));
    }
    out.factor = worse_factor(out.factor, factor_of(group, is_separate));
    out.condition = std::max(out.condition, group.condition);
    out.left_over = std::max(out.left_over, group.left_over);
    out.parameters += static_cast<int>(group.parameters.size());
    for (std::size_t r = 0; r < group.ranks.size(); ++r) {
      for (std::size_t m = 0; m < group.weights[r].size(); ++m) {
        if (group.weights[r][m].kind != FittedWeight::Kind::Known) continue;
        told.emplace(group.ranks[r], static_cast<int>(m));
      }
    }
  }
  out.contributions = static_cast<int>(told.size());
  return out;
}

// A micro-batch that gave no gradient to anything: its backward never ran.
std::string first_missing(const AccountRecords& rank) {
  std::set<int> seen;
  for (const account::ParameterRecord& parameter : rank.parameters) {
    for (const account::Contribution& each : parameter.contributions) seen.insert(each.micro_batch);
  }
  for (int m = 0; m < rank.steps.front().micro_batches; ++m) {
    if (!seen.contains(m)) {
      return fmt::format("micro-batch {} of rank {} gave no gradient", m + 1, rank.rank);
    }
  }
  return "";
}

std::string first_fault(const std::vector<AccountRecords>& ranks) {
  for (const AccountRecords& rank : ranks) {
    if (!rank.faults.empty()) return fmt::format("{} on rank {}", rank.faults.front(), rank.rank);
    if (std::string missing = first_missing(rank); !missing.empty()) return missing;
  }
  return "";
}

// Nothing of the others' is in what a rank reads.
std::string not_separate(const StepAccount& step) {
  for (const WeightGroup& group : step.groups) {
    const Weights weights = weights_of(group, true);
    const double limit = kNothing * std::abs(weights.mean());
    const bool are_nothing = std::ranges::all_of(weights.others, [&](const FittedWeight& each) {
      return std::abs(each.weight) <= limit + each.error;
    });
    if (group.readers.size() == 1 && are_nothing) continue;
    return "ranks read gradients of each other, and nothing is to be synchronized";
  }
  return "";
}

bool is_right(AccountKind kind, bool is_separate) {
  switch (kind) {
    case AccountKind::Equal:
    case AccountKind::NotToldApart:
    case AccountKind::Rounded:
    case AccountKind::Factor:  // judged by itself
      return true;
    case AccountKind::Separate:
      return is_separate;
    default:
      return false;
  }
}

std::string why_off(const StepAccount& step, const std::vector<AccountVerdict>& verdicts,
                    const TrialAccount& account, bool is_separate) {
  for (const AccountVerdict& verdict : verdicts) {
    if (verdict.is_off || !is_right(verdict.kind, is_separate)) return verdict.sentence;
  }
  if (is_separate) {
    if (std::string together = not_separate(step); !together.empty()) return together;
  }
  const bool is_rounded =
      std::ranges::any_of(step.groups, [](const WeightGroup& group) { return group.is_rounded; });
  const double limit = is_rounded ? kSameFactorRounded : kSameFactor;
  if (std::abs(account.factor - 1) <= limit) return "";
  return fmt::format("all weigh {:.4g} x what the loss says", account.factor);
}

}  // namespace

JudgedAccount judge_trial_account(const std::vector<AccountRecords>& ranks, bool is_separate) {
  JudgedAccount judged;
  judged.off = first_fault(ranks);
  const std::vector<StepAccount> steps = account::solve_accounts(ranks);
  if (steps.empty() || steps.front().groups.empty()) {
    judged.account = Unknown{steps.empty() ? "no step was recorded" : steps.front().why_not};
    return judged;
  }
  const StepAccount& step = steps.front();
  const std::vector<AccountVerdict> verdicts = account::judge_account(step);
  TrialAccount summary = summary_of(step, is_separate && step.world_size > 1);
  summary.kind = name_of(verdicts.front().kind);
  for (const AccountVerdict& verdict : verdicts) {
    summary.verdict += (summary.verdict.empty() ? "" : "; ") + verdict.sentence;
  }
  if (judged.off.empty()) {
    judged.off = why_off(step, verdicts, summary, is_separate && step.world_size > 1);
  }
  judged.account = std::move(summary);
  return judged;
}

}  // namespace gradsync::coordinate
