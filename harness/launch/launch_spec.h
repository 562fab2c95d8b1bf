// The work of the ranks of a launch: all that they know beside their place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/launch/topology.h"
#include "harness/plan/plan.h"

namespace gradsync::launch {

struct LaunchSpec {
  std::vector<plan::Trial> trials;  // in the order they run
  launch::Topology topology;
  std::uint64_t seed = 42;
  int launch = 0;
  double timeout_s = 60;
  bool as_published = false;  // the guide's window rule instead of the honest one
  int threads_per_rank = 1;
  std::string device = "cpu";        // or "cuda", as torch names it
  bool paper = false;                // "cuda" of paper: it computes nothing and takes no time
  std::string on;                    // which GPUs of paper, "8xh100"; else empty
  std::string backend = "gloo";      // "fake": this rank is the only one of its world that exists
  bool gloo_loop_yields = false;     // see comm/gloo_loop.h
  std::int64_t fold_from_bytes = 0;  // see plan::Plan
  bool every_micro_batch = false;    // see plan::Plan
  int ranks_per_host = 1;            // consecutive ranks that share a machine, and so its GPUs
  std::string weights;               // path of a checkpoint (models/checkpoint.h), or empty
  std::string data;                  // JSON Lines of token ids, or empty
  // A workload is freed when another one takes its turn: together they would not fit
  // (launch_memory.h).
  bool one_workload_at_a_time = false;
  bool resident = false;  // the trials only list cells: they are made at once, and run on request
  double extra_work =
      0;  // of each step, to be done in addition (extra_work.h); resident ranks only
};

}  // namespace gradsync::launch
