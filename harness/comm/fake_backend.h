// A c10d backend that sends nothing: one real rank of a world whose other ranks do not exist.
//
// Every collective is complete when it is issued, and its tensors stay as they are. So what a rank
// of that world would allocate and issue can be counted on one machine: the ledger and the peak of
// memory are exact, while values mean nothing and no time is that of a job. Like NCCL, and unlike
// gloo, it copies nothing that it is given to reduce.
//
// One exception: where ranks tell each other what they have, each list of an all_gather of lists
// gets this rank's own, as if all were alike; DDP compares the shapes of its parameters so.
// torch's own FakeProcessGroup includes Python's headers.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace gradsync::comm {

// Returns the backend of rank `rank` of `world_size`. Local: there is nobody to meet.
c10::intrusive_ptr<c10d::Backend> make_fake_backend(int rank, int world_size);

}  // namespace gradsync::comm
