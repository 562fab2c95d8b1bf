// A cell of a plan, as the planner sees it: which of its parameters decide how long a step takes,
// and which cells it cannot predict.
#pragma once

#include <string>

#include "harness/launch/topology.h"
#include "harness/plan/plan.h"
#include "harness/predict/network.h"
#include "harness/predict/step_schedule.h"

namespace gradsync::predict {

// What is known about links and hosts beside their rates.
struct LinkConstants {
  double payload_share = 1448.0 / 1514.0;  // of a line's rate, with Ethernet frames of 1500 bytes
  double latency_s = 0;                    // of one message, of every link
  HostCost host = {};
  Algorithm algorithm = Algorithm::Ring;
  bool scatters_by_all_reduce = true;  // as gloo; false: as NCCL
  bool gathers_half_late = true;       // likewise
  bool is_shaped = false;              // by gradsync on one machine: launch/link_shape.h
};

// Returns why the cell's step on that topology cannot be predicted; "" if it can.
std::string why_not_predicted(const plan::Cell& cell, const launch::Topology& topology);

// Returns the network of a topology whose rates are divided by the cell's scale already. A link
// inside a node without a rate costs nothing where there is one between nodes.
Network network_of(const launch::Topology& topology, const LinkConstants& constants);

StepOptions options_of(const plan::Cell& cell);

}  // namespace gradsync::predict
