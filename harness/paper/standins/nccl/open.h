// Opening communicators: what waits for the other ranks there.
#pragma once

#include <optional>
#include <set>

#include "harness/paper/standins/nccl/communicator.h"
#include "harness/paper/standins/nccl/groups.h"

namespace gradsync::paper::nccl {

// Returns who exists of a communicator of `size` ranks, by GRADSYNC_PAPER_WORLD and _REAL: all of
// at most _REAL ranks; ranks 0 to _REAL-1 of one of _WORLD ranks; of any other, this rank alone.
// Errors: Failure, where this rank itself is one of those that are absent.
Place place_of(int size, int rank, const Settings& settings);

// Takes a seat, waits until all are taken, and compares what the ranks say: that they agree on the
// number of ranks, and that no two have one GPU. `*out` is the communicator then.
class Join {
 public:
  Join(Communicator comm, ncclComm_t* out) : comm_(std::move(comm)), out_(out) {}
  std::optional<Wait> operator()();

 private:
  void verify() const;

  Communicator comm_;
  ncclComm_t* out_;
};

// Where the ranks of a communicator go on to others: ncclCommSplit and ncclCommShrink. The ranks
// tell each other color, key and an invitation; those of one color, by key, accept that of their
// first. Ranks in `excluded` do not come.
class Regroup {
 public:
  Regroup(Communicator parent, ncclComm_t* out, int color, int key, std::set<int> excluded);
  std::optional<Wait> operator()();

 private:
  void tell_others();
  void open_group();

  Communicator parent_;
  ncclComm_t* out_;
  int color_, key_;
  std::set<int> excluded_;
  std::uint64_t number_ = 0;
  std::optional<Join> join_;
};

}  // namespace gradsync::paper::nccl
