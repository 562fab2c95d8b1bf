#include "harness/watch/judge/equal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "harness/account/account.h"
#include "harness/account/account_verdict.h"
#include "harness/account/sought.h"
#include "harness/account/weight_words.h"
#include "harness/base/errors.h"

namespace gradsync::watch {
namespace {

using account::AccountedStep;
using account::AccountRecords;
using account::kSketchBuckets;
using account::OfRanks;
using account::ParameterKey;
using account::ParameterRecord;
using account::percent_text;
using account::Sketch;
using account::Sought;
using account::squared_distance;
using account::squared_length;
using account::StepAccount;
using account::WeightGroup;
using account::WeightWords;

// Larger, and a micro-batch that counts 1 % more passes for rounding; smaller, and the order in
// which a large batch is added up does not.
constexpr double kSame = 1e-3;
constexpr double kSameRounded = 2e-2;  // in 16 bits
constexpr double kSameStart = 1e-6;
constexpr double kSameFactor = 5e-3;

double dot(const Sketch& a, const Sketch& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kSketchBuckets; ++i) sum += a[i] * b[i];
  return sum;
}

Sketch scaled(Sketch sketch, double factor) {
  for (double& each : sketch) each *= factor;
  return sketch;
}

double share(double squared_part, double squared_whole) {
  if (squared_whole > 0) return std::sqrt(squared_part / squared_whole);
  return squared_part > 0 ? 1 : 0;
}

const Sought* find(const FirstStep& step, const ParameterKey& key) {
  const auto found = std::find_if(step.parameters.begin(), step.parameters.end(),
                                  [&](const Sought& each) { return each.key == key; });
  return found == step.parameters.end() ? nullptr : &*found;
}

double factor_between(const FirstStep& right, const FirstStep& other) {
  double along = 0;
  double squared = 0;
  for (const Sought& r : right.parameters) {
    along += dot(r.gradient, find(other, r.key)->gradient);
    squared += squared_length(r.gradient);
  }
  return squared == 0 ? 1 : along / squared;
}

GradientDifference compared(const FirstStep& right, const FirstStep& other) {
  GradientDifference comparison;
  comparison.factor = factor_between(right, other);
  double squared = 0;
  double apart = 0;
  double left = 0;
  double worst = -1;
  for (const Sought& r : right.parameters) {
    const Sketch& g = find(other, r.key)->gradient;
    const double distance = squared_distance(g, r.gradient);
    squared += squared_length(r.gradient);
    apart += distance;
    left += squared_distance(g, scaled(r.gradient, comparison.factor));
    const double own = share(distance, squared_length(r.gradient));
    if (own > worst) comparison.worst = r.name;
    worst = std::max(worst, own);
  }
  comparison.difference = share(apart, squared);
  comparison.left_over = share(left, squared * comparison.factor * comparison.factor);
  return comparison;
}

bool is_near(double value, double other) {
  return std::abs(value - other) <= kSameFactor * std::abs(other);
}

// What a factor is likely to come from; "" where nothing is near.
std::string reason_of(double factor, const Split& split) {
  const double ranks = split.ranks;
  const double micro_batches = split.micro_batches;
  if (is_near(factor, ranks * micro_batches)) return "once for each micro-batch of each rank";
  if (is_near(factor, 1 / ranks / micro_batches)) {
    return "divided by ranks and micro-batches once more";
  }
  if (is_near(factor, micro_batches)) return "summed over micro-batches, not averaged";
  if (is_near(factor, 1 / micro_batches)) return "divided by micro-batches once more";
  if (is_near(factor, ranks)) return "summed over ranks, not averaged";
  if (is_near(factor, 1 / ranks)) return "divided by ranks once more";
  return "";
}

// Returns the weights of the other split's contributions in the right gradient, as an account finds
// them where a job read that gradient. Nothing where they cannot be found or do not add up.
std::optional<WeightGroup> weights_of(const FirstStep& right, const FirstStep& other) {
  std::vector<Sought> sought = other.parameters;
  std::vector<const Sought*> together;
  for (Sought& each : sought) {
    each.gradient = find(right, each.key)->gradient;
    each.shards.clear();
    together.push_back(&each);
  }
  StepAccount account;
  solve_class(account, together, {});
  if (account.groups.size() != 1) return std::nullopt;
  WeightGroup group = account.groups.front();
  if (group.left_over > (group.is_rounded ? kSameRounded : kSame)) return std::nullopt;
  group.tokens = other.tokens;
  return group;
}

// Where all weigh alike in the right gradient, it is the other that has something else of them:
// what an account of that job says.
EqualVerdict other_sum(const FirstStep& other, const GradientDifference& gradient) {
  const account::AccountVerdict own = account::judge_account(other.account).front();
  return {EqualKind::OtherWeights,
          account::is_good(own.kind) ? "the same samples, with other weights"
                                     : "the same samples, with other weights: " + own.sentence,
          own.why, gradient};
}

EqualVerdict other_weights(const WeightGroup& group, const FirstStep& other,
                           const GradientDifference& gradient) {
  const WeightWords words(group);
  const std::string unequal = words.unequal();
  if (unequal.empty()) return other_sum(other, gradient);
  EqualVerdict verdict{
      EqualKind::OtherWeights,
      fmt::format("the same samples, with other weights: in the right gradient its {}", unequal),
      "", gradient};
  if (const std::string tokens = words.by_tokens(); !tokens.empty()) {
    verdict.why = tokens + "; the loss of each is a mean over its own, not over those of the step";
  }
  return verdict;
}

bool is_of_16_bits(const Sought& sought) {
  return sought.dtype == "bfloat16" || sought.dtype == "float16";
}

// Whether the two did not begin with the same parameters; else nothing.
std::optional<EqualVerdict> other_start(const FirstStep& right, const FirstStep& other) {
  if (right.parameters.size() != other.parameters.size()) {
    return EqualVerdict{EqualKind::OtherStart,
                        fmt::format("{} parameters take part in the first step, and not {}",
                                    other.parameters.size(), right.parameters.size()),
                        ""};
  }
  for (const Sought& r : right.parameters) {
    const Sought* g = find(other, r.key);
    const double most = kSameStart * kSameStart * squared_length(r.value);
    if (g != nullptr && squared_distance(g->value, r.value) <= most) continue;
    return EqualVerdict{EqualKind::OtherStart,
                        fmt::format("{} is not the same before the first step", r.name),
                        "runs are to begin with the same parameters: is each rank seeded?"};
  }
  return std::nullopt;
}

void check_split(const Split& split, const std::vector<AccountRecords>& ranks, int micro_batches) {
  const auto seen = static_cast<int>(ranks.size());
  if (seen == split.ranks && micro_batches == split.micro_batches) return;
  throw EnvironmentError(fmt::format("its first step was of {}, expected {}",
                                     split_text({seen, micro_batches, 1}), split_text(split)),
                         "{ranks} and {micro_batches} stand in COMMAND for what it is to take");
}

void add_parameter(FirstStep& step, const OfRanks& records) {
  const std::vector<Sought> found = put_together(records, owners_of(records));
  if (found.empty()) return;
  if (found.size() > 1 || found.front().readers.size() < records.size()) {
    throw EnvironmentError(fmt::format("ranks read different gradients of {}", found.front().name),
                           "gradsync watch --account says which");
  }
  step.parameters.push_back(found.front());
}

}  // namespace

std::string split_text(const Split& split) {
  return fmt::format("{} rank{} x {} micro-batch{}", split.ranks, split.ranks == 1 ? "" : "s",
                     split.micro_batches, split.micro_batches == 1 ? "" : "es");
}

FirstStep first_step_of(const Split& split, const std::vector<AccountRecords>& ranks) {
  FirstStep first{split, {}, {}, {}};
  std::map<ParameterKey, OfRanks> parameters;
  std::map<int, std::vector<std::int64_t>> of_ranks;
  int micro_batches = 0;
  for (const AccountRecords& process : ranks) {
    for (const AccountedStep& step : process.steps) {
      if (step.step != 0) continue;
      micro_batches = std::max(micro_batches, step.micro_batches);
      std::vector<std::int64_t>& tokens = of_ranks[process.rank];
      tokens = step.tokens;
      tokens.resize(static_cast<std::size_t>(step.micro_batches));
    }
    for (const ParameterRecord& record : process.parameters) {
      if (record.step == 0) parameters[{record.optimizer, record.index}][process.rank] = &record;
    }
  }
  if (parameters.empty()) {
    throw EnvironmentError("no first step of its optimizers could be recorded");
  }
  check_split(split, ranks, micro_batches);
  for (const auto& [rank, tokens] : of_ranks) first.tokens.push_back(tokens);
  for (const auto& [key, records] : parameters) add_parameter(first, records);
  first.account = account::solve_accounts(ranks).front();
  return first;
}

EqualVerdict compare_first_steps(const FirstStep& right, const FirstStep& other) {
  if (auto start = other_start(right, other)) return std::move(*start);
  const bool is_rounded = std::ranges::any_of(right.parameters, is_of_16_bits);
  const double same = is_rounded ? kSameRounded : kSame;
  const GradientDifference comparison = compared(right, other);
  if (comparison.difference <= same) {
    return {EqualKind::Equal, fmt::format("equal within {}", percent_text(comparison.difference)),
            "", comparison};
  }
  if (comparison.left_over <= same) {
    return {EqualKind::Factor, fmt::format("{:.4g} times the right gradient", comparison.factor),
            reason_of(comparison.factor, other.split), comparison};
  }
  if (const auto group = weights_of(right, other)) return other_weights(*group, other, comparison);
  return {EqualKind::OtherSamples,
          fmt::format("another gradient: {} of it differs, {} most",
                      percent_text(comparison.left_over), comparison.worst),
          "no weights of its micro-batches make it right: its samples are others, or something "
          "else differs: dropout, batch normalization, an order that is drawn",
          comparison};
}

bool is_unequal(EqualKind kind) {
  return kind == EqualKind::Factor || kind == EqualKind::OtherWeights;
}

}  // namespace gradsync::watch
