// What the ranks of a communicator do together: collectives, and messages between two.
//
// Each is something to advance (groups.h). A collective gives what its rank has to its seat, waits
// until all have come, compares what they called, and takes what is its own from all seats. A
// message above kMovedBytes for each rank moves nothing: its ranks only meet.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "harness/paper/standins/nccl/groups.h"

namespace gradsync::paper::nccl {

enum class Kind {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAlltoAll,
  kGather,
  kScatter,
  kSend,
  kReceive
};

// A call as it was made. `count` is what one rank gives or gets of another, as in NCCL.
struct Call {
  Kind kind;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = -1;      // -1: none
  int root = -1;    // the peer of kSend and kReceive
  Scalar scalar{};  // of a premulsum

  std::size_t bytes() const;  // of `count` elements
  bool moves() const { return bytes() <= kMovedBytes; }
};

class Collective {
 public:
  Collective(Communicator comm, const Call& call) : comm_(std::move(comm)), call_(call) {}
  std::optional<Wait> operator()();

 private:
  bool come();
  void give() const;
  void give_chunk(int reader, std::size_t offset) const;
  void compare(int seat) const;
  void take() const;
  void take_reduced() const;
  void take_gathered() const;
  void take_from_root() const;
  bool has_chunks() const;
  int chunk() const { return has_chunks() ? comm_->seat() : 0; }
  // What of this rank's own buffer becomes part of what it takes: if no kernel had to write that,
  // no kernel had to write the result either (unwritten.h).
  const char* own_share() const {
    return static_cast<const char*>(call_.send) +
           (has_chunks() ? static_cast<std::size_t>(comm_->place.rank) * call_.bytes() : 0);
  }
  char* given(int seat) const { return comm_->meeting.given(seat, number_, chunk()); }

  Communicator comm_;
  Call call_;
  std::uint64_t number_ = 0;  // 0: it has not come yet
};

// Waits only where kPendingMessages are in the channel. An absent peer gets nothing.
class Send {
 public:
  Send(Communicator comm, const Call& call) : comm_(std::move(comm)), call_(call) {}
  std::optional<Wait> operator()() const;

 private:
  Communicator comm_;
  Call call_;
};

// An absent peer sends zeros.
class Receive {
 public:
  Receive(Communicator comm, const Call& call) : comm_(std::move(comm)), call_(call) {}
  std::optional<Wait> operator()() const;

 private:
  Communicator comm_;
  Call call_;
};

}  // namespace gradsync::paper::nccl
