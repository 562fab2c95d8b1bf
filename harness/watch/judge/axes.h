// What a step communicates along each axis of the job's mesh.
#pragma once

#include <array>
#include <string>
#include <utility>
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

// As files and pages have them, in the order of a page.
constexpr auto names_of(const GroupRole*) {
  return std::array{std::pair{GroupRole::Shard, "shard"},
                    std::pair{GroupRole::Replicate, "replicate"},
                    std::pair{GroupRole::DataParallel, "data_parallel"},
                    std::pair{GroupRole::Tensor, "tensor"},
                    std::pair{GroupRole::Context, "context"},
                    std::pair{GroupRole::Expert, "expert"},
                    std::pair{GroupRole::Pipeline, "pipeline"},
                    std::pair{GroupRole::Alone, "alone"},
                    std::pair{GroupRole::Unknown, "other"}};
}

// Returns the axes that `step` used, by what they do. Empty: it is not known which group did what.
std::vector<Axis> axes_of(const StepCounts& step, const std::vector<Group>& groups);

// Returns what they are called on a page, each in its own way: "shard", "shard dp_shard".
std::vector<std::string> labels_of(const std::vector<Axis>& axes);

// "shard: dp_shard, ranks 0 1; replicate: dp_replicate, ranks 0 2"; "" where one is all there is.
std::string axes_sentence(const std::vector<Axis>& axes);

}  // namespace gradsync::watch
