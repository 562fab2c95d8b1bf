// How calls run: one at a time, or those of a group together.
//
// A call is a step that advances as far as the other ranks let it. The steps of a group advance in
// turn until all are done, so that a thread can be several ranks, and sends and receives of a group
// complete in any order. In one lane (the collectives of a communicator, the sends to one peer, the
// receives from one peer) they keep their order.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/paper/standins/nccl/communicator.h"

namespace gradsync::paper::nccl {

// The rank that a step waits for: "rank 1 never came to <what>".
struct Wait {
  Communicator comm;
  int seat = 0;
  std::string what;
};

inline constexpr int kSetupLane = -2;  // opens communicators: on no stream, and first
inline constexpr int kCollectiveLane = -1;
constexpr int send_lane(int peer) {
  return 2 * peer;
}
constexpr int receive_lane(int peer) {
  return 2 * peer + 1;
}

struct Step {
  Communicator comm;
  int lane = kSetupLane;
  // Does what can be done now. Returns for whom it waits; nothing once all is done. A copy made
  // before the first call starts anew: a CUDA graph runs it with each launch.
  std::function<std::optional<Wait>()> advance;
};

// Adds the step to this thread's group or, if none is open, runs it: on `stream`, or at once where
// it is of the setup lane.   Blocks: until it is done.   Errors: Failure, which is the
// communicator's asynchronous error from then on.
void perform(Step step, void* stream);

// Makes ncclGroupEnd of this thread's open group, if any, return `result` and run nothing.
void fail_group(ncclResult_t result);

}  // namespace gradsync::paper::nccl
