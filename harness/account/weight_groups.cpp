#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

// `others`: what each parameter may be made of besides, a sketch for each; empty: nothing.
Equations equations_of(const Sought& sought, const std::vector<Column>& columns,
                       const Sketch* besides = nullptr) {
  const std::size_t unknowns = columns.size() + (besides != nullptr ? 1 : 0);
  Equations equations(unknowns);
  const double size = size_of(sought);
  if (size == 0) return equations;
  std::vector<double> row(unknowns);
  for (std::size_t b = 0; b < buckets_of(sought); ++b) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto found = sought.columns.find(columns[c]);
      row[c] = found == sought.columns.end() ? 0 : found->second[b] / size;
    }
    if (besides != nullptr) row.back() = (*besides)[b] / size;
    equations.add(row, sought.gradient[b] / size);
  }
  return equations;
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
  group.left_over = fit.left_over;
  group.condition = fit.condition;
  group.equations = fit.equations;
  group.weights.resize(group.ranks.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].is_older) continue;
    const auto rank = std::find(group.ranks.begin(), group.ranks.end(), columns[c].rank);
    auto& weights = group.weights[static_cast<std::size_t>(rank - group.ranks.begin())];
    const auto place = static_cast<std::size_t>(columns[c].micro_batch);
    if (weights.size() <= place) weights.resize(place + 1, {FittedWeight::Kind::Absent});
    weights[place] = fit.estimates[c];
  }
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
  const bool is_rounded = std::any_of(
      parameters.begin(), parameters.end(),
      [](const Parameter* parameter) { return is_of_16_bits(parameter->sought->dtype); });
  return is_rounded ? kLeftOverRounded : kLeftOver;
}

// What else they are made of: the parameters themselves, or contributions of the step before.
void explain(WeightGroup& group, const std::vector<const Parameter*>& parameters,
             const std::vector<Column>& columns, const std::map<ParameterKey, Sought>& before) {
  Equations decayed(columns.size() + 1);
  std::vector<Sought> late;
  for (const Parameter* parameter : parameters) {
    const Sought& sought = *parameter->sought;
    decayed.add(equations_of(sought, columns, &sought.value));
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
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const Group& group) { return are_alike(group.fit, fit); });
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
    const auto home = std::find_if(all.begin(), all.end(), [&](auto group) {
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
    }
  }
}

}  // namespace gradsync::account
