// The memory in which the ranks of a communicator meet: one per communicator, mapped by each rank.
//
// It is a memfd of the process that made the unique id. The others open it as /proc/PID/fd/N, by
// what the id says, and nothing of it has a name: the kernel frees it with the last rank, however
// that ends. Across process namespaces it is a file of GRADSYNC_PAPER_FOLDER, which has a name
// until all ranks have come. It has a seat for each rank, two buffers for what a rank gives to
// collectives, and a channel for each pair. It is large and sparse: only what is used takes memory.
//
// A rank that gives to collective k has finished k-1, so all have come to k-1 and finished k-2:
// two buffers are enough, and a collective waits once.
#pragma once

#include <nccl.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gradsync::paper::nccl {

// Up to so many bytes for each rank, messages move. Larger ones are counted, and their memory is
// never touched: a larger bound makes device memory real where it should be address space.
inline constexpr std::size_t kMovedBytes = 64 << 10;

// How many messages wait in a channel before its sender does. NCCL's sender waits for the first.
inline constexpr std::uint64_t kPendingMessages = 64;

// What a rank calls, as all ranks must call it. -1: the operation has none.
struct Ticket {
  int kind = -1;  // Kind
  int type = -1;
  int op = -1;
  int root = -1;
  std::uint64_t count = 0;

  bool operator==(const Ticket&) const = default;
};

// What a rank says at ncclCommSplit and ncclCommShrink: the group that it goes to, and the meeting
// of that group, should it be the first there.
struct Invitation {
  int color = 0;
  int key = 0;
  ncclUniqueId id{};
};

enum class Presence : int { kAway, kComing, kPresent, kLeft, kAborted };

struct Seat {
  std::atomic<Presence> presence;
  pid_t process;
  std::uint64_t started;  // when the process was, so that a reused pid is another process
  std::uint64_t space;    // its process namespace
  int ranks;              // as this rank was told
  int device;
  char host[128];                          // NCCL_HOSTID, or the host's name
  char bus[32];                            // "0000:1b:00.0"
  std::atomic<std::uint64_t> collectives;  // to how many this rank has come
  Ticket tickets[2];
  std::atomic<std::uint64_t> invitations;
  Invitation invitation[2];

  // Returns whether the process of this rank is there and no zombie. One of another process
  // namespace cannot be seen: it counts as there.
  bool alive() const;
};

struct Message {
  std::uint64_t count;
  int type;
  char bytes[kMovedBytes];
};

struct Channel {
  std::atomic<std::uint64_t> sent;
  std::atomic<std::uint64_t> received;
  Message messages[kPendingMessages];
};

// Returns the id of a meeting that this process makes. It is open until withdrawn.
ncclUniqueId invite();

// Closes the meeting to other processes. Local; nothing happens where another process made it.
void withdraw(const ncclUniqueId& id);

class Meeting {
 public:
  // Errors: Failure, where the id is none or its process may not be asked.
  Meeting(const ncclUniqueId& id, int seats);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Closes it to other processes.
  void close() const { withdraw(id_); }
  // Takes the seat, whose other fields are then to be filled.
  Seat& take(int seat);
  Seat& seat(int seat) const;
  // What `seat` gives to `reader`, one of the seats, in its collective `number`: kMovedBytes.
  char* given(int seat, std::uint64_t number, int reader) const;
  Channel& channel(int from, int to) const;

  // Every change that another may wait for is followed by ring(). Who waits reads bell(), looks,
  // and listens: it returns when the bell is no longer what was heard, or after `at_most`.
  void ring();
  std::uint32_t bell() const;
  void listen(std::uint32_t heard, std::chrono::milliseconds at_most) const;

 private:
  ncclUniqueId id_;
  int seats_;
  std::size_t bytes_ = 0;
  char* memory_ = nullptr;
};

}  // namespace gradsync::paper::nccl
