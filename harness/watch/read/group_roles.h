// Finds what each process group of a job does, so that each axis of its mesh is judged by itself.
//
// A wrapper reports the roles of the groups that it reduces in. For others the mesh's names decide
// ("tp", "ep", "dp_replicate") and, where there are none, the collectives themselves: a group in
// which nothing but all_to_all runs routes to experts, one of sends and receives is a pipeline's,
// and under FSDP reduce-scatters are among shards and the all-reduces that follow them among
// replicas.
#pragma once

#include <string>
#include <string_view>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Returns what an axis of this name does; Unknown where its name does not say.
GroupRole role_of_axis(std::string_view axis);

// Returns the axis that a mesh made a group for, by torch's description of the group: a mesh calls
// it "mesh_NAME", and "mesh_dim_0" and so on where its axes have no names. "" where it is none.
std::string axis_of_description(std::string_view description);

// Gives every collective of `process` the role of its group, and `groups` those that only the
// collectives told of. `process.events` must be by time.
void assign_roles(RankEvents& process);

// Adds to `groups` what one more source says of a group.
void add_group(std::vector<Group>& groups, const Group& said);

}  // namespace gradsync::watch
