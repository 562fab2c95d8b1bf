#include "harness/watch/judge/axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "harness/base/fields.h"

namespace gradsync::watch {
namespace {

std::ptrdiff_t place_of(GroupRole role) {
  const auto roles = names_of(&role);
  return std::ranges::find(roles, role, &std::pair<GroupRole, const char*>::first) - roles.begin();
}

// What is known of a group of which a step has collectives; nothing is of calls past c10d.
Group group_of(std::int64_t number, const std::vector<Group>& groups) {
  const auto known = std::ranges::find(groups, number, &Group::number);
  return known == groups.end() ? Group{} : *known;
}

Axis& axis_for(const Group& group, std::vector<Axis>& axes) {
  const auto same = std::ranges::find_if(axes, [&](const Axis& axis) {
    return axis.role == group.role && axis.name == group.axis && axis.ranks == group.ranks;
  });
  if (same != axes.end()) return *same;
  axes.push_back({.role = group.role,
                  .name = group.axis,
                  .ranks = group.ranks,
                  .collectives = {},
                  .ideal = {},
                  .excess = {}});
  return axes.back();
}

std::string words_of(GroupRole role) {
  std::string text = name_of(role);
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, " "));
}

}  // namespace

std::vector<Axis> axes_of(const StepCounts& step, const std::vector<Group>& groups) {
  std::vector<Axis> axes;
  for (const auto& [number, counts] : step.by_group) {
    Axis& axis = axis_for(group_of(number, groups), axes);
    add(axis.collectives, counts.collectives);
    add(axis.excess, counts.excess);
  }
  for (Axis& axis : axes) axis.ideal = without(axis.collectives, axis.excess);
  std::ranges::stable_sort(axes, {}, [](const Axis& axis) { return place_of(axis.role); });
  return axes;
}

std::vector<std::string> labels_of(const std::vector<Axis>& axes) {
  std::vector<std::string> labels;
  for (const Axis& axis : axes) {
    std::string label = words_of(axis.role);
    if (std::ranges::count(axes, axis.role, &Axis::role) > 1) {
      label += " " + (axis.name.empty() ? std::to_string(labels.size() + 1) : axis.name);
    }
    labels.push_back(std::move(label));
  }
  return labels;
}

std::string axes_sentence(const std::vector<Axis>& axes) {
  if (axes.size() < 2) return "";
  const std::vector<std::string> labels = labels_of(axes);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<std::string> said;
    const Axis& axis = axes[i];
    if (!axis.name.empty() && !labels[i].ends_with(axis.name)) said.push_back(axis.name);
    if (!axis.ranks.empty()) said.push_back(ranks_text(axis.ranks));
    if (!said.empty()) texts.push_back(fmt::format("{}: {}", labels[i], fmt::join(said, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace gradsync::watch
