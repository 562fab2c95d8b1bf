// What a step communicates along each axis of the job's mesh.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/watch/judge/steps/counts.h"
#include "harness/watch/read/group.h"
#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {

// One group of the lowest rank's, or several that do the same among the same ranks.
struct Axis {
  GroupRole role = GroupRole::Unknown;
  std::string name;        // as the job's mesh calls it; empty: it has none
  std::vector<int> ranks;  // empty: not known
  OpSums collectives;
  OpSums ideal;  // what would be enough
  OpSums excess;
};

std::string to_string(GroupRole role);  // "shard", "data_parallel", ...
std::optional<GroupRole> group_role(std::string_view name);

// Returns the axes that `step` used, by what they do. Empty: it is not known which group did what.
std::vector<Axis> axes_of(const StepCounts& step, const std::vector<Group>& groups);

// Returns what they are called on a page, each in its own way: "shard", "shard dp_shard".
std::vector<std::string> labels_of(const std::vector<Axis>& axes);

// "shard: dp_shard, ranks 0 1; replicate: dp_replicate, ranks 0 2"; "" where one is all there is.
std::string axes_sentence(const std::vector<Axis>& axes);

}  // namespace gradsync::watch
