// The fields of a topology that are sent to the tasks that start its ranks, and to the ranks.
// Included where they are written or read.
#pragma once

#include "harness/base/fields.h"
#include "harness/launch/topology.h"

namespace gradsync::launch {

GRADSYNC_FIELDS_OF(Topology, nodes, ranks_per_node)

}  // namespace gradsync::launch
