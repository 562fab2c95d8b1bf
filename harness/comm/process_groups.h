// Process groups by backend name, with the recording backend inside.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/comm/gpu.h"
#include "harness/comm/ledger.h"

namespace gradsync::comm {

struct GroupOptions {
  std::string name = "world";  // of the group; each has keys of its own in the store
  int rank = 0;
  int world_size = 1;
  std::string backend = "gloo";  // or "nccl", or "fake": see make_fake_backend
  at::Device device = at::kCPU;
  Gpu* gpu = nullptr;     // where the device is one; it must outlive the group
  std::string address;    // own IPv4 address, which gloo binds to
  double timeout_s = 60;  // of every collective
};

// Returns a process group over `store` whose collectives are written to `ledger`.
// Collective: every rank of the world, once. Blocks until all have joined; "fake" has no peers to
// wait for. Errors: CommError when a peer is missing after timeout_s. "nccl" needs a GPU.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options, Ledger& ledger);

// gloo, in a file of its own, the only one that includes its headers. NCCL is the GPU's.
// From then on this process ignores SIGPIPE, as every Python process does: gloo writes to its
// sockets by writev, so the signal would end a rank whose peer has just gone, before it can say
// which.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const GroupOptions& options);

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
//
// Returns the backend of rank `rank` of `world_size`. Local: it meets no other rank.
c10::intrusive_ptr<c10d::Backend> make_fake_backend(int rank, int world_size);

// Begin to gather every rank's `input` into `output`, in the order of ranks, or to sum every rank's
// `input` and leave this rank's part of it in `output`. Flat tensors, one `ranks` times the other.
// Collective. torch calls them by other names from release to release: these know them.
c10::intrusive_ptr<c10d::Work> all_gather(c10d::ProcessGroup& group, at::Tensor& output,
                                          at::Tensor& input);
c10::intrusive_ptr<c10d::Work> reduce_scatter(c10d::ProcessGroup& group, at::Tensor& output,
                                              at::Tensor& input);

// Blocks until every rank has called it. Collective. Errors: CommError.
void barrier(c10d::ProcessGroup& group);

// Returns what this exception of c10d or gloo is, in our terms: a timeout or a lost peer.
class CommFailure {
 public:
  explicit CommFailure(const std::string& what);
  bool is_comm() const { return is_comm_; }
  bool timed_out() const { return timed_out_; }
  const std::string& sentence() const { return sentence_; }

 private:
  bool is_comm_ = false;
  bool timed_out_ = false;
  std::string sentence_;  // the first line, without source positions
};

}  // namespace gradsync::comm
