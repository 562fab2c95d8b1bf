// Process groups: which ranks communicate together, and what for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradsync::watch {

// What a group does. Under sharded models, Shard scatters and gathers, and Replicate adds up what
// shards of the same part have; those behind DataParallel exchange no gradients.
enum class GroupRole {
  Unknown,
  Shard,
  Replicate,
  DataParallel,  // every rank has the whole model
  Tensor,
  Context,
  Expert,
  Pipeline,
  Alone,  // of one rank: nothing moves
};

struct Group {
  std::string name;         // torch's own
  std::int64_t number = 0;  // of that name, as collectives have it in `object`
  std::vector<int> ranks;   // of the job; empty: not known
  std::string axis;         // as the job's mesh calls it; empty: there is none, or it has no names
  GroupRole role = GroupRole::Unknown;
  bool is_told = false;  // by a wrapper; where two tell different roles, the role is Unknown
  std::string replicas;  // of a Shard: the group in which the same wrapper replicates; "": none
};

}  // namespace gradsync::watch
