#include "harness/account/separate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/account/weight_words.h"

namespace gradsync::account {
namespace {

using stats::FittedWeight;

using Groups = std::vector<const WeightGroup*>;

// Every rank whose micro-batches weigh something in what the readers of the group read.
std::vector<int> counted_ranks(const WeightGroup& group) {
  std::vector<int> ranks;
  const double mean = group.mean();
  for (std::size_t r = 0; r < group.ranks.size(); ++r) {
    const auto& weights = group.weights[r];
    if (std::ranges::any_of(weights,
                            [&](const FittedWeight& each) { return !is_nothing(each, mean); })) {
      ranks.push_back(group.ranks[r]);
    }
  }
  return ranks;
}

// Those that a part of their ranks read, of the ranks that most parameters have.
Groups separate_groups(const StepAccount& account) {
  Groups parts;
  for (const WeightGroup& group : account.groups) {
    if (group.readers.size() < group.ranks.size() && group.ranks == account.groups[0].ranks) {
      parts.push_back(&group);
    }
  }
  return parts;
}

bool count_own_alone(const Groups& parts) {
  return std::ranges::all_of(
      parts, [](const WeightGroup* part) { return counted_ranks(*part) == part->readers; });
}

std::vector<std::string> names_in(const Groups& parts) {
  std::vector<std::string> names;
  for (const WeightGroup* part : parts) {
    for (const std::string& name : part->parameters) add_new(names, name);
  }
  return names;
}

// Elements of the parameters that the groups of one reader have.
std::int64_t elements_of(const Groups& parts) {
  std::int64_t sum = 0;
  for (const WeightGroup* part : parts) {
    if (part->readers == parts.front()->readers) sum += part->elements;
  }
  return sum;
}

bool have_one(const std::vector<std::string>& some, const std::vector<std::string>& names) {
  return std::ranges::any_of(
      some, [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); });
}

// Whether each rank reads its own alone, and it is one model that they train: beside parameters
// that the same ranks average, or all that there are. Parameters that are alike because each is one
// number throughout may be of different models.
bool read_own_of_one_model(const StepAccount& first, const SeenBeside& beside) {
  const Groups parts = separate_groups(first);
  const bool is_each_alone =
      std::ranges::all_of(parts, [](const WeightGroup* part) { return part->readers.size() == 1; });
  const bool are_constant =
      std::ranges::all_of(parts, [](const WeightGroup* part) { return part->is_constant; });
  if (parts.empty() || !is_each_alone || !count_own_alone(parts) || are_constant ||
      have_one(beside.own, names_in(parts))) {
    return false;
  }
  if (parts.size() < first.groups.size()) {
    return std::ranges::any_of(first.groups, [&](const WeightGroup& group) {
      return group.ranks == parts.front()->ranks && group.readers == group.ranks;
    });
  }
  constexpr std::int64_t kHalfOfAnElement = 2;  // of 32 bits
  return beside.between_bytes < kHalfOfAnElement * elements_of(parts);
}

bool steps_with(const StepAccount& step, const std::vector<std::string>& names) {
  return std::ranges::any_of(
      step.groups, [&](const WeightGroup& group) { return have_one(group.parameters, names); });
}

}  // namespace

std::optional<AccountVerdict> judge_separate(const StepAccount& account) {
  const Groups parts = separate_groups(account);
  if (parts.empty()) return std::nullopt;
  const bool are_apart = count_own_alone(parts);
  std::vector<std::string> readers;
  for (const WeightGroup* part : parts) add_new(readers, ranks_text(part->readers));
  const std::string of_what =
      parts.size() < account.groups.size() ? " of " + names_text(names_in(parts)) : "";
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

bool are_apart_for_good(const std::vector<const StepAccount*>& steps, const SeenBeside& beside) {
  const StepAccount& first = *steps.front();
  // The first one may end within the first forward.
  const bool are_wrapped =
      std::ranges::any_of(steps, [](const StepAccount* step) { return step->is_wrapped; });
  const bool is_known =
      are_wrapped && first.comm_hook.empty() && !first.is_used && !beside.has_activations;
  if (!is_known || !read_own_of_one_model(first, beside)) return false;
  const std::vector<std::string> names = names_in(separate_groups(first));
  bool have_drifted = false;
  for (const StepAccount* step : steps) {
    if (!steps_with(*step, names)) continue;  // another optimizer's
    const bool is_drifted = have_one(step->drifted, names);
    if (have_drifted && !is_drifted) return false;  // they averaged parameters
    have_drifted = is_drifted;
  }
  return have_drifted;
}

}  // namespace gradsync::account
