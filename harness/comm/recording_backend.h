// A c10d backend that writes every collective into the ledger and passes it on.
//
// It sits between c10d and gloo or NCCL, registered as the process group's own backend, so that the
// Reducer, FSDP and anything else that communicates goes through it without knowing. gloo's
// operations are complete when their future says so, on the thread that completed them, also where
// they communicate a GPU's tensors through copies of their own; what it receives, when it has been
// waited for. NCCL's are when its stream has
// passed them, which a mark in the device's queue tells (comm/gpu.h); their future would tell too,
// but would keep the memory of their tensors from being used again at once.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "harness/comm/gpu.h"
#include "harness/comm/ledger.h"

namespace gradsync::comm {

// Returns `inner` wrapped. `nccl_on`: the GPU whose NCCL it is; null: gloo. Both it and `ledger`
// must outlive the backend. Every call stays as collective as the inner one. Cost: about 1 us per
// collective on the issuing thread, and two marks on a GPU.
c10::intrusive_ptr<c10d::Backend> make_recording_backend(c10::intrusive_ptr<c10d::Backend> inner,
                                                         Ledger& ledger, Gpu* nccl_on = nullptr);

}  // namespace gradsync::comm
