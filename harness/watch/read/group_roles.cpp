#include "harness/watch/read/group_roles.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace gradsync::watch {
namespace {

// Words of an axis's name, and what they say; the first that a name has counts, so that "expert_dp"
// is no axis of experts.
constexpr std::array<std::pair<std::string_view, GroupRole>, 23> kWords{{
    {"replicate", GroupRole::Replicate}, {"replica", GroupRole::Replicate},
    {"shard", GroupRole::Shard},         {"fsdp", GroupRole::Shard},
    {"efsdp", GroupRole::Shard},         {"dp", GroupRole::DataParallel},
    {"ddp", GroupRole::DataParallel},    {"edp", GroupRole::DataParallel},
    {"data", GroupRole::DataParallel},   {"tp", GroupRole::Tensor},
    {"etp", GroupRole::Tensor},          {"tensor", GroupRole::Tensor},
    {"model", GroupRole::Tensor},        {"mp", GroupRole::Tensor},
    {"cp", GroupRole::Context},          {"sp", GroupRole::Context},
    {"context", GroupRole::Context},     {"sequence", GroupRole::Context},
    {"ep", GroupRole::Expert},           {"expert", GroupRole::Expert},
    {"pp", GroupRole::Pipeline},         {"pipeline", GroupRole::Pipeline},
    {"pipe", GroupRole::Pipeline},
}};

bool has_part(std::string_view name, std::string_view word) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  for (std::size_t at = name.find(word); at != std::string_view::npos;
       at = name.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(name[at - 1])) && (end == name.size() || !is_letter(name[end]))) {
      return true;
    }
  }
  return false;
}

// What the collectives of one group were.
struct Use {
  std::string name;  // of the group; cut where it is long
  std::set<std::string> ops;
  std::int64_t count = 0;
  std::int64_t behind_a_scatter = 0;  // all-reduces of a part of what was scattered just before
};

bool is_of_a_part(const Event& collective, const Event* before) {
  return before != nullptr && before->name == "reduce_scatter" && collective.name == "all_reduce" &&
         before->object != collective.object && collective.bytes > 0 &&
         before->bytes > collective.bytes && before->bytes % collective.bytes == 0;
}

std::map<std::int64_t, Use> uses_of(const RankEvents& process) {
  std::map<std::int64_t, Use> uses;
  const Event* before = nullptr;
  for (const Event& event : process.events) {
    if (event.kind != EventKind::Collective || event.object == 0) continue;
    Use& use = uses[event.object];
    use.name = event.detail;
    use.ops.insert(event.name);
    ++use.count;
    use.behind_a_scatter += is_of_a_part(event, before) ? 1 : 0;
    before = &event;
  }
  return uses;
}

bool runs_sharded_models(const RankEvents& process) {
  return std::ranges::any_of(process.events, [](const Event& event) {
    return event.kind == EventKind::Forward && wrapper_named(event.name).is_sharded;
  });
}

GroupRole role_of_use(const Use& use, bool has_shards) {
  if (use.ops.empty()) return GroupRole::Unknown;
  if (use.ops == std::set<std::string>{"all_to_all"}) return GroupRole::Expert;
  if (std::ranges::all_of(use.ops, [](const auto& op) { return op == "send" || op == "recv"; })) {
    return GroupRole::Pipeline;
  }
  if (!has_shards) return GroupRole::Unknown;
  if (use.ops.count("reduce_scatter") > 0) return GroupRole::Shard;
  return 2 * use.behind_a_scatter > use.count ? GroupRole::Replicate : GroupRole::Unknown;
}

GroupRole role_of(const Group& group, const Use& use, bool has_shards) {
  if (group.ranks.size() == 1) return GroupRole::Alone;
  if (group.is_told) return group.role;
  const GroupRole named = role_of_axis(group.axis);
  return named == GroupRole::Unknown ? role_of_use(use, has_shards) : named;
}

// Those that are of more than one rank.
std::set<std::string> names_of_several(const std::vector<Group>& groups) {
  std::set<std::string> names;
  for (const Group& group : groups) {
    if (group.ranks.size() > 1) names.insert(group.name);
  }
  return names;
}

}  // namespace

GroupRole role_of_axis(std::string_view axis) {
  for (const auto& [word, role] : kWords) {
    if (has_part(axis, word)) return role;
  }
  return GroupRole::Unknown;
}

std::string axis_of_description(std::string_view description) {
  constexpr std::string_view kMesh = "mesh_";
  const bool is_named = description.starts_with(kMesh) && !description.starts_with("mesh_dim_") &&
                        !description.starts_with("mesh_default");
  return is_named ? std::string(description.substr(kMesh.size())) : "";
}

void assign_roles(RankEvents& process) {
  std::map<std::int64_t, Use> uses = uses_of(process);
  for (const auto& [number, use] : uses) {
    Group group;
    group.name = use.name;
    group.number = number;
    add_group(process.groups, group);
  }
  const bool has_shards = runs_sharded_models(process);
  std::map<std::int64_t, const Group*> by_number;
  for (Group& group : process.groups) {
    group.role = role_of(group, uses[group.number], has_shards);
    by_number[group.number] = &group;
  }
  const std::set<std::string> several = names_of_several(process.groups);
  for (Event& event : process.events) {
    const auto group = by_number.find(event.object);
    if (event.kind != EventKind::Collective || group == by_number.end()) continue;
    event.role = group->second->role;
    event.is_apart = event.role == GroupRole::Alone && process.world_size > 1;
    event.has_replicas = several.contains(group->second->replicas);
  }
}

void add_group(std::vector<Group>& groups, const Group& said) {
  const auto known = std::ranges::find(groups, said.number, &Group::number);
  if (known == groups.end()) {
    groups.push_back(said);
    return;
  }
  if (known->ranks.empty()) known->ranks = said.ranks;
  if (known->axis.empty()) known->axis = said.axis;
  if (known->replicas.empty()) known->replicas = said.replicas;
  if (!said.is_told) return;
  known->role = known->is_told && known->role != said.role ? GroupRole::Unknown : said.role;
  known->is_told = true;
}

}  // namespace gradsync::watch
