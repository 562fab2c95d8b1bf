// The rendezvous: a TCP store held by rank 0, on a port that the system chooses.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

#include "harness/launch/control_channel.h"

namespace gradsync::comm {

// Returns the store of this launch. Rank 0 opens it on a free port (or MASTER_PORT, where the
// environment sets it) and tells the launcher, which tells the others: no port is guessed, so none
// can be taken in between. Collective: every rank once. Blocks up to `timeout_s`.
// Errors: EnvironmentError where MASTER_PORT is in use; CommError where rank 0 does not answer.
c10::intrusive_ptr<c10d::Store> make_store(const launch::RankPlace& place,
                                           launch::ControlChannel& control, double timeout_s);

// torchrun's own store, which listens at MASTER_ADDR:MASTER_PORT before any task runs: where the
// tasks of a job tell each other what cannot be known beforehand, such as a free port.
struct AgentStore {
  std::string host;
  int port = 0;
  double timeout_s = 60;

  // Errors: EnvironmentError where no store answers there.
  void set(const std::string& key, const std::string& value) const;

  // Blocks until another task has set `key`. Errors: EnvironmentError after timeout_s.
  std::string get(const std::string& key) const;
};

}  // namespace gradsync::comm
