// What of a topology is told to those who start its ranks, and to these. For what writes it down.
#pragma once

#include "harness/base/fields.h"
#include "harness/launch/topology.h"

namespace gradsync::launch {

constexpr auto fields_of(const Topology*) {
  return std::tuple{GRADSYNC_FIELDS(Topology, nodes, ranks_per_node)};
}

}  // namespace gradsync::launch
