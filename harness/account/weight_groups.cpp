#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "harness/account/sought.h"

namespace gradsync::account {
namespace {

using stats::Equations;
using stats::Fit;
using stats::FittedWeight;

// What may be left over of parameters that are said to go together. Larger, and groups of
// parameters with weights of their own pass unnoticed; smaller, and rounding in 16 bits divides
// what belongs together: then the parts are found alike again.
constexpr double kLeftOver = 1e-3;
constexpr double kLeftOverRounded = 1e-2;
// Weights of two parameters that count as the same, as a share of them; or within so many errors.
constexpr double kSameWeight = 5e-3;
constexpr double kErrors = 6;
// What is left over by what is then said to explain it, as a share of what was before.
constexpr double kExplained = 0.02;
constexpr std::size_t kMostUnknowns = 512;

struct Parameter {
  const Sought* sought;
  Equations equations;
};

bool is_of_16_bits(const std::string& dtype) {
  return dtype == "bfloat16" || dtype == "float16";
}

// A parameter's equations count alike, whatever its size: rounding is relative.
double size_of(const Sought& sought) {
  double squared = squared_length(sought.gradient);
  double columns = 0;
  for (const auto& [column, sketch] : sought.columns) columns += squared_length(sketch);
  squared += columns / std::max<double>(1, static_cast<double>(sought.columns.size()));
  return std::sqrt(squared / static_cast<double>(kSketchBuckets));
}

// Buckets that an element of the parameter falls into.
std::size_t buckets_of(const Sought& sought) {
  return static_cast<std::size_t>(
      std::min<std::int64_t>(sought.elements, static_cast<std::int64_t>(kSketchBuckets)));
}

// `right` as a sum of the columns, and of what it may be made of besides.
Equations equations_of(const Sought& sought, const std::vector<Column>& columns,
                       const std::vector<Sketch>& besides, const Sketch& right) {
  const std::size_t unknowns = columns.size() + besides.size();
  Equations equations(unknowns);
  const double size = size_of(sought);
  if (size == 0) return equations;
  std::vector<double> row(unknowns);
  for (std::size_t b = 0; b < buckets_of(sought); ++b) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto found = sought.columns.find(columns[c]);
      row[c] = found == sought.columns.end() ? 0 : found->second[b] / size;
    }
    for (std::size_t k = 0; k < besides.size(); ++k) row[columns.size() + k] = besides[k][b] / size;
    equations.add(row, right[b] / size);
  }
  return equations;
}

Equations equations_of(const Sought& sought, const std::vector<Column>& columns) {
  return equations_of(sought, columns, {}, sought.gradient);
}

std::vector<Column> columns_of(const std::vector<const Sought*>& together) {
  std::set<Column> columns;
  for (const Sought* sought : together) {
    for (const auto& [column, sketch] : sought->columns) columns.insert(column);
  }
  return {columns.begin(), columns.end()};
}

Fit fit_of(const std::vector<const Parameter*>& parameters) {
  Equations all(parameters.front()->equations.unknowns());
  for (const Parameter* parameter : parameters) all.add(parameter->equations);
  return all.solve();
}

void set_weights(WeightGroup& group, const std::vector<Column>& columns, const Fit& fit) {
  group.left_over = fit.left_over;
  group.condition = fit.condition;
  group.equations = fit.equations;
  group.weights.assign(group.ranks.size(), {});
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].is_older) continue;
    const auto rank = std::ranges::find(group.ranks, columns[c].rank);
    auto& weights = group.weights[static_cast<std::size_t>(rank - group.ranks.begin())];
    const auto place = static_cast<std::size_t>(columns[c].micro_batch);
    if (weights.size() <= place) weights.resize(place + 1, {FittedWeight::Kind::Absent});
    weights[place] = fit.estimates[c];
  }
}

// Larger ones are no biases or scales.
constexpr std::int64_t kMostConstant = 65536;
constexpr double kConstant = 1e-6;

bool is_constant(const Sought& sought) {
  if (squared_length(sought.value) == 0) return true;
  if (sought.elements > kMostConstant) return false;
  const Sketch ones = sketch_of(std::vector<double>(static_cast<std::size_t>(sought.elements), 1));
  const double along = std::inner_product(ones.begin(), ones.end(), sought.value.begin(), 0.0);
  const double squared = squared_length(ones);
  const double left = squared_length(sought.value) - (squared == 0 ? 0 : along * along / squared);
  return left <= kConstant * squared_length(sought.value);
}

WeightGroup group_of(const std::vector<const Parameter*>& parameters,
                     const std::vector<Column>& columns, const Fit& fit) {
  WeightGroup group;
  group.ranks = parameters.front()->sought->ranks;
  group.readers = parameters.front()->sought->readers;
  for (const Parameter* parameter : parameters) {
    group.parameters.push_back(parameter->sought->name);
    group.elements += parameter->sought->elements;
    group.is_rounded = group.is_rounded || is_of_16_bits(parameter->sought->dtype);
  }
  group.is_constant = group.readers.size() < group.ranks.size() &&
                      std::ranges::all_of(parameters, [](const Parameter* parameter) {
                        return is_constant(*parameter->sought);
                      });
  set_weights(group, columns, fit);
  return group;
}

// Whether two fits of the same columns have the same weights, where both know them.
bool are_alike(const Fit& a, const Fit& b) {
  double size = 0;
  for (const FittedWeight& each : a.estimates) size = std::max(size, std::abs(each.weight));
  for (std::size_t i = 0; i < a.estimates.size(); ++i) {
    const FittedWeight& x = a.estimates[i];
    const FittedWeight& y = b.estimates[i];
    if (x.kind == FittedWeight::Kind::Absent || y.kind == FittedWeight::Kind::Absent) continue;
    const double within = std::max(kSameWeight * size, kErrors * std::hypot(x.error, y.error));
    if (std::abs(x.weight - y.weight) > within) return false;
  }
  return true;
}

bool can_be_judged_alone(const Parameter& parameter) {
  return parameter.equations.count() >= 2 * parameter.equations.unknowns();
}

double may_be_left(const std::vector<const Parameter*>& parameters) {
  const bool is_rounded = std::ranges::any_of(parameters, [](const Parameter* parameter) {
    return is_of_16_bits(parameter->sought->dtype);
  });
  return is_rounded ? kLeftOverRounded : kLeftOver;
}

// The rank with the largest part of these gradients; its size and the others' by rank in `sizes`.
int rank_of_largest(const std::vector<const Parameter*>& parameters, std::map<int, double>& sizes) {
  for (const Parameter* parameter : parameters) {
    const double whole = squared_length(parameter->sought->gradient);
    for (const auto& [rank, sketch] : parameter->sought->shards) {
      if (const double part = squared_length(sketch); part > 0) sizes[rank] += part / whole;
    }
  }
  const auto largest = std::ranges::max_element(
      sizes, [](const auto& a, const auto& b) { return a.second < b.second; });
  return largest == sizes.end() ? -1 : largest->first;
}

std::size_t count_divided(const std::vector<const Parameter*>& parameters) {
  return static_cast<std::size_t>(std::ranges::count_if(parameters, [](const Parameter* parameter) {
    return std::ranges::count_if(parameter->sought->shards, [](const auto& shard) {
             return squared_length(shard.second) > 0;
           }) > 1;
  }));
}

// Where each rank's part of the gradients has a factor f of its own, the parts divided by these add
// up to a sum of contributions: so the largest part is that sum without the others, each times its
// 1 / f. The contributions need not be known by part.
void explain_by_shards(WeightGroup& group, const std::vector<const Parameter*>& parameters,
                       const std::vector<Column>& columns) {
  std::map<int, double> sizes;
  const int largest = rank_of_largest(parameters, sizes);
  if (sizes.size() < 2) return;
  sizes.erase(largest);
  Equations apart(columns.size() + sizes.size());
  for (const Parameter* parameter : parameters) {
    const auto& shards = parameter->sought->shards;
    const auto part_of = [&](int rank) {
      const auto found = shards.find(rank);
      return found == shards.end() ? Sketch{} : found->second;
    };
    std::vector<Sketch> others;
    for (const auto& [rank, size] : sizes) others.push_back(part_of(rank));
    apart.add(equations_of(*parameter->sought, columns, others, part_of(largest)));
  }
  const Fit fit = apart.solve();
  if (fit.equations < 2 * apart.unknowns() || fit.left_over > may_be_left(parameters)) return;
  std::vector<ShardFactor> factors{{largest, 1}};
  for (const auto& [rank, size] : sizes) {
    const FittedWeight& inverse = fit.estimates[columns.size() + factors.size() - 1];
    if (inverse.kind != FittedWeight::Kind::Known || inverse.weight >= 0) return;
    factors.push_back({rank, -1 / inverse.weight});
  }
  const auto [least, most] = std::ranges::minmax(factors, {}, &ShardFactor::factor);
  if (most.factor <= (1 + kSameWeight) * least.factor) return;
  for (ShardFactor& each : factors) each.factor /= least.factor;
  std::ranges::sort(factors, {}, &ShardFactor::rank);
  group.shards = std::move(factors);
  group.divided = count_divided(parameters);
  set_weights(group, columns, fit);
}

// Whether what the optimizer read in the step before is in these gradients once more.
bool have_the_step_before(const WeightGroup& group, const std::vector<const Parameter*>& parameters,
                          const std::vector<Column>& columns,
                          const std::map<ParameterKey, Sought>& before) {
  Equations kept(columns.size() + 1);
  for (const Parameter* parameter : parameters) {
    const auto known = before.find(parameter->sought->key);
    if (known == before.end()) return false;
    const Sought& sought = *parameter->sought;
    kept.add(equations_of(sought, columns, {known->second.gradient}, sought.gradient));
  }
  const Fit fit = kept.solve();
  const FittedWeight& once = fit.estimates.back();
  return fit.left_over < kExplained * group.left_over && once.kind == FittedWeight::Kind::Known &&
         std::abs(once.weight - 1) <= kSameWeight;
}

// What else they are made of: the parameters themselves, or contributions of the step before.
void explain(WeightGroup& group, const std::vector<const Parameter*>& parameters,
             const std::vector<Column>& columns, const std::map<ParameterKey, Sought>& before) {
  Equations decayed(columns.size() + 1);
  std::vector<Sought> late;
  for (const Parameter* parameter : parameters) {
    const Sought& sought = *parameter->sought;
    decayed.add(equations_of(sought, columns, {sought.value}, sought.gradient));
    const auto known = before.find(sought.key);
    if (known == before.end()) continue;
    late.push_back(sought);
    late.back().columns = known->second.columns;
  }
  const Fit with_decay = decayed.solve();
  if (with_decay.left_over < kExplained * group.left_over) {
    group.decay = with_decay.estimates.back().weight;
  }
  if (late.size() < parameters.size()) return;
  group.has_the_step_before = have_the_step_before(group, parameters, columns, before);
  std::vector<const Sought*> pointers;
  for (const Sought& each : late) pointers.push_back(&each);
  const std::vector<Column> earlier = columns_of(pointers);
  Equations delayed(earlier.size());
  for (const Sought& each : late) delayed.add(equations_of(each, earlier));
  group.is_of_the_step_before = delayed.solve().left_over < kExplained * group.left_over;
}

// Parameters of one class that do not add up together, in groups that do; what does in none comes
// last, in one group.
std::vector<std::vector<const Parameter*>> divided(
    const std::vector<const Parameter*>& parameters) {
  struct Group {
    Fit fit;
    std::vector<const Parameter*> parameters;
  };
  std::vector<Group> groups;
  std::vector<const Parameter*> rest;
  for (const Parameter* parameter : parameters) {
    const Fit fit = parameter->equations.solve();
    if (!can_be_judged_alone(*parameter) || fit.left_over > may_be_left({parameter})) {
      rest.push_back(parameter);
      continue;
    }
    const auto same =
        std::ranges::find_if(groups, [&](const Group& group) { return are_alike(group.fit, fit); });
    if (same == groups.end()) {
      groups.push_back({fit, {parameter}});
    } else {
      same->parameters.push_back(parameter);
    }
  }
  std::vector<std::vector<const Parameter*>> all;
  for (Group& group : groups) all.push_back(std::move(group.parameters));
  // Too small to be judged alone, they go where they fit.
  std::vector<const Parameter*> unfit;
  for (const Parameter* parameter : rest) {
    const auto home = std::ranges::find_if(all, [&](auto group) {
      group.push_back(parameter);
      return fit_of(group).left_over <= may_be_left(group);
    });
    (home == all.end() ? unfit : *home).push_back(parameter);
  }
  if (!unfit.empty()) all.push_back(std::move(unfit));
  return all;
}

}  // namespace

void solve_class(StepAccount& account, const std::vector<const Sought*>& together,
                 const std::map<ParameterKey, Sought>& before) {
  const std::vector<Column> columns = columns_of(together);
  if (columns.size() > kMostUnknowns) {
    account.why_not =
        fmt::format("{} ranks and micro-batches are more than it can tell apart", columns.size());
    return;
  }
  std::vector<Parameter> parameters;
  parameters.reserve(together.size());
  for (const Sought* sought : together) {
    parameters.push_back({sought, equations_of(*sought, columns)});
  }
  std::vector<const Parameter*> all;
  for (const Parameter& parameter : parameters) all.push_back(&parameter);
  const Fit fit = fit_of(all);
  if (fit.equations < 2 * columns.size()) {
    account.why_not = fmt::format(
        "{} numbers of a gradient are too few to tell {} contributions "
        "apart",
        fit.equations, columns.size());
    return;
  }
  const bool adds_up = fit.left_over <= may_be_left(all);
  using Groups = std::vector<std::vector<const Parameter*>>;
  const Groups groups = adds_up ? Groups{all} : divided(all);
  for (const auto& group : groups) {
    account.groups.push_back(group_of(group, columns, fit_of(group)));
    if (account.groups.back().left_over > kLeftOver) {
      explain(account.groups.back(), group, columns, before);
      explain_by_shards(account.groups.back(), group, columns);
    }
  }
}

}  // namespace gradsync::account
