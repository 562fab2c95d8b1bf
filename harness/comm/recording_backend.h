// A c10d backend that writes every collective into the ledger and passes it on.
//
// It sits between c10d and gloo or NCCL, registered as the process group's own backend, so that the
// Reducer, FSDP and anything else that communicates goes through it without knowing. gloo's
// operations are complete when their future says so, on the thread that completed them, also where
// they communicate a GPU's tensors through copies of their own; what it receives, when it has been
// waited for, and so a reduce_scatter of a GPU's tensors, which has no future since its last part
// is done by who waits for it. Its barriers and sends count as complete when they are issued.
// NCCL's are when its stream has passed them, which a mark in the device's queue tells
// (comm/gpu.h); their future would tell too, but would keep the memory of their tensors from being
// used again at once.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "harness/comm/gpu.h"
#include "harness/comm/ledger.h"

namespace gradsync::comm {

// Returns `inner` wrapped: gloo, or a backend like it. `ledger` must outlive the backend. Every
// call stays as collective as the inner one. Cost: about 1 us per collective on the issuing thread.
c10::intrusive_ptr<c10d::Backend> make_recording_backend(c10::intrusive_ptr<c10d::Backend> inner,
                                                         Ledger& ledger);

// The same for NCCL of `gpu`, which must outlive the backend. Cost: two marks on the GPU on top.
c10::intrusive_ptr<c10d::Backend> make_recording_backend(const NcclGroup& inner, Ledger& ledger,
                                                         Gpu& gpu);

}  // namespace gradsync::comm
