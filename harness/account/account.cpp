#include "harness/account/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "harness/account/sought.h"

namespace gradsync::account {
namespace {

using stats::FittedWeight;

using OfStep = std::map<ParameterKey, OfRanks>;

bool has_finite_numbers(const ParameterRecord& record) {
  return is_finite(record.gradient) && is_finite(record.value) &&
         std::ranges::all_of(record.contributions,
                             [](const Contribution& each) { return is_finite(each.sketch); });
}

// Returns the gradients of a step whose weights are sought; empty where they are not known, with
// the reason in `account`.
std::vector<Sought> sought_in(const OfStep& step, std::size_t ranks,
                              std::map<ParameterKey, Owners>& owners, StepAccount& account) {
  std::vector<Sought> all;
  for (const auto& [key, records] : step) {
    for (const auto& [rank, record] : records) {
      if (has_finite_numbers(*record)) continue;
      account.why_not = "its gradients are not finite";
      return {};
    }
    const Owners now = owners_of(records);
    const Owners& at_first = owners.try_emplace(key, now).first->second;
    if (now.size() > at_first.size()) account.drifted.push_back(records.begin()->second->name);
    const std::vector<Sought> found = put_together(records, at_first);
    all.insert(all.end(), found.begin(), found.end());
  }
  if (account.world_size > 1 && ranks < static_cast<std::size_t>(account.world_size)) {
    account.why_not = fmt::format("{} of {} ranks were recorded", ranks, account.world_size);
    return {};
  }
  if (all.empty()) account.why_not = "no parameter was seen whole with what was added to it";
  return all;
}

// Adds to each group how many tokens its ranks' micro-batches have, where any is known.
void add_tokens(StepAccount& account, const std::map<int, std::vector<std::int64_t>>& tokens) {
  if (tokens.empty()) return;
  for (WeightGroup& group : account.groups) {
    for (std::size_t r = 0; r < group.ranks.size(); ++r) {
      const auto known = tokens.find(group.ranks[r]);
      group.tokens.push_back(known == tokens.end() ? std::vector<std::int64_t>{} : known->second);
      group.tokens.back().resize(group.weights[r].size());
    }
  }
}

}  // namespace

std::size_t WeightGroup::unknowns() const {
  std::size_t count = 0;
  for (const auto& of_rank : weights) {
    count += static_cast<std::size_t>(std::ranges::count_if(
        of_rank, [](const FittedWeight& each) { return each.kind != FittedWeight::Kind::Absent; }));
  }
  return count;
}

double WeightGroup::mean() const {
  double sum = 0;
  for (const auto& of_rank : weights) {
    for (const FittedWeight& each : of_rank) {
      if (each.kind != FittedWeight::Kind::Absent) sum += each.weight;
    }
  }
  return unknowns() == 0 ? 0 : sum / static_cast<double>(unknowns());
}

std::vector<StepAccount> solve_accounts(const std::vector<AccountRecords>& ranks) {
  std::map<std::int64_t, OfStep> steps;
  std::map<std::int64_t, StepAccount> accounts;
  std::map<std::int64_t, std::set<int>> seen;
  std::map<std::int64_t, std::map<int, std::vector<std::int64_t>>> tokens;
  int world_size = 0;
  for (const AccountRecords& process : ranks) {
    world_size = std::max(world_size, process.world_size);
    for (const ParameterRecord& record : process.parameters) {
      steps[record.step][{record.optimizer, record.index}][process.rank] = &record;
    }
    for (const AccountedStep& step : process.steps) {
      StepAccount& account = accounts[step.step];
      account.step = step.step;
      account.micro_batches = std::max(account.micro_batches, step.micro_batches);
      account.loss_scale = step.loss_scale;
      account.clippings = std::max(account.clippings, step.clippings);
      account.max_norm = step.max_norm;
      account.clipped_by = step.clipped_by;
      account.scaled_after = step.scaled_after;
      account.loss_weights[process.rank] = step.loss_weights;
      account.is_used = account.is_used || step.is_used;
      if (account.comm_hook.empty()) account.comm_hook = step.comm_hook;
      if (account.places.empty()) account.places = step.places;
      if (account.functions.empty()) account.functions = step.functions;
      if (account.calls.empty()) account.calls = step.calls;
      account.is_wrapped |= step.is_wrapped;
      if (std::ranges::any_of(step.tokens, [](std::int64_t count) { return count > 0; })) {
        tokens[step.step][process.rank] = step.tokens;
      }
      seen[step.step].insert(process.rank);
    }
  }
  std::vector<StepAccount> all;
  std::map<ParameterKey, Sought> before;
  std::map<ParameterKey, Owners> owners;
  for (auto& [number, account] : accounts) {
    account.world_size = world_size;
    const std::vector<Sought> sought =
        sought_in(steps[number], seen[number].size(), owners, account);
    if (!all.empty() && all.back().step != number - 1) before.clear();
    std::map<std::tuple<std::vector<int>, std::vector<int>>, std::vector<const Sought*>> classes;
    for (const Sought& each : sought) classes[{each.ranks, each.readers}].push_back(&each);
    for (const auto& [who, together] : classes) solve_class(account, together, before);
    std::ranges::stable_sort(account.groups, [](const WeightGroup& a, const WeightGroup& b) {
      return std::pair(a.ranks.size(), a.elements) > std::pair(b.ranks.size(), b.elements);
    });
    if (!account.groups.empty()) account.why_not.clear();
    add_tokens(account, tokens[number]);
    before.clear();
    for (const Sought& each : sought) before.emplace(each.key, each);
    all.push_back(std::move(account));
  }
  return all;
}

}  // namespace gradsync::account
