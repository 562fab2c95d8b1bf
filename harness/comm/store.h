// The rendezvous: a TCP store held by rank 0, on a port that the system chooses.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/launch/control_channel.h"

namespace gradsync::comm {

// Returns the store of this launch. Rank 0 opens it on a free port (or MASTER_PORT, where the
// environment sets it) and tells the launcher, which tells the others: no port is guessed, so none
// can be taken in between. Collective: every rank once. Blocks up to `timeout_s`.
// Errors: EnvironmentError where MASTER_PORT is in use; CommError where rank 0 does not answer.
c10::intrusive_ptr<c10d::Store> make_store(const launch::RankPlace& place,
                                           launch::ControlChannel& control, double timeout_s);

}  // namespace gradsync::comm
