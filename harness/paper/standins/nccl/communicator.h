// A communicator of paper: one rank's view of the ranks that meet.
//
// Where ranks are absent (settings.h), only the first `seats` ranks exist, or this one alone, and
// rank r of the others does as the rank of seat r mod `seats` does. A seat is the place of a rank
// that exists in the meeting.
#pragma once

#include <nccl.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "harness/paper/standins/nccl/failure.h"
#include "harness/paper/standins/nccl/meeting.h"
#include "harness/paper/standins/nccl/settings.h"

namespace gradsync::paper::nccl {

// Who of a communicator exists.
struct Place {
  int size = 0;
  int rank = 0;
  int seats = 0;
};

// The scalar of an operator of ncclRedOpCreatePreMulSum.
struct Scalar {
  int type = -1;                 // -1: destroyed
  const void* device = nullptr;  // read while the collective runs; null: `value`
  std::array<char, 8> value{};
};

}  // namespace gradsync::paper::nccl

// NCCL's name for it.
struct ncclComm {  // NOLINT(readability-identifier-naming)
  // Opens the meeting of `id`, and takes this rank's seat. Errors: Failure.
  ncclComm(const gradsync::paper::nccl::Settings& settings, const ncclUniqueId& id,
           const gradsync::paper::nccl::Place& place, int device);
  ~ncclComm();
  ncclComm(const ncclComm&) = delete;
  ncclComm& operator=(const ncclComm&) = delete;

  bool all_real() const { return place.seats == place.size; }
  int seat() const { return place.seats == 1 ? 0 : place.rank; }
  int seat_of(int rank) const { return rank % place.seats; }
  int rank_of(int seat) const { return place.seats == 1 ? place.rank : seat; }
  bool is_real(int rank) const { return rank_of(seat_of(rank)) == rank; }
  gradsync::paper::nccl::Seat& my_seat() const { return meeting.seat(seat()); }

  // The first failure stays: it is the asynchronous error. Any thread.
  void fail(const gradsync::paper::nccl::Failure& failure);
  std::optional<gradsync::paper::nccl::Failure> failure() const;
  // Tells the other ranks that this one is gone. Only the first call counts.
  void leave(gradsync::paper::nccl::Presence how);

  const gradsync::paper::nccl::Settings settings;
  const gradsync::paper::nccl::Place place;
  const int device;
  gradsync::paper::nccl::Meeting meeting;
  std::uint64_t collectives = 0;  // to how many this rank has come
  std::uint64_t invitations = 0;
  bool never_comes = false;  // injected: the others wait for this rank from now on
  std::atomic<bool> aborted = false;
  std::vector<gradsync::paper::nccl::Scalar> scalars;  // of op ncclNumOps + index

 private:
  mutable std::mutex mutex_;
  std::optional<gradsync::paper::nccl::Failure> failure_;
};

namespace gradsync::paper::nccl {

using Communicator = std::shared_ptr<ncclComm>;

// Handles are pointers that the registry knows; a call that runs keeps its communicator alive when
// another thread destroys it.
ncclComm_t publish(const Communicator& comm);
// Errors: Failure (ncclInvalidArgument) where there is none.
Communicator find(ncclComm_t handle);
// The same, and forgets it.
Communicator forget(ncclComm_t handle);

}  // namespace gradsync::paper::nccl
