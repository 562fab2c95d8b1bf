// A c10d backend that writes every collective into the ledger and passes it on.
//
// It sits between c10d and gloo or NCCL, registered as the process group's own backend, so that the
// Reducer, FSDP and anything else that communicates goes through it without knowing. The completion
// time comes from the operation's future, on the thread that completed it.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "harness/comm/ledger.h"

namespace gradsync::comm {

// Returns `inner` wrapped. `ledger` must outlive the backend. Every call stays as collective as the
// inner one. Cost: about 1 us per collective on the issuing thread.
c10::intrusive_ptr<c10d::Backend> make_recording_backend(c10::intrusive_ptr<c10d::Backend> inner,
                                                         Ledger& ledger);

}  // namespace gradsync::comm
