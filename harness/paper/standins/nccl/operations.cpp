#include "harness/paper/standins/nccl/operations.h"

#include <cstring>
#include <string>
#include <vector>

#include "harness/paper/standins/nccl/reduce.h"
#include "harness/paper/standins/unwritten.h"

namespace gradsync::paper::nccl {
namespace {

constexpr const char* kNames[] = {"AllReduce", "Broadcast", "Reduce",  "AllGather", "ReduceScatter",
                                  "AlltoAll",  "Gather",    "Scatter", "Send",      "Recv"};

std::string amount(std::uint64_t count, int type) {
  return std::to_string(count) + " " + type_name(type);
}

// "AllReduce of 4 float32, sum" or "Broadcast of 4 int8, root 0".
std::string described(const Ticket& ticket) {
  std::string text = std::string(kNames[ticket.kind]) + " of " + amount(ticket.count, ticket.type);
  if (ticket.op >= 0) text += std::string(", ") + op_name(ticket.op);
  if (ticket.root >= 0) text += ", root " + std::to_string(ticket.root);
  return text;
}

Ticket ticket_of(const Call& call) {
  // Operators of ncclRedOpCreatePreMulSum have each rank's own numbers.
  const int op = call.op > ncclNumOps ? ncclNumOps : call.op;
  return {static_cast<int>(call.kind), call.type, op, call.root, call.count};
}

}  // namespace

std::size_t Call::bytes() const {
  return count * width(type);
}

bool Collective::has_chunks() const {
  return call_.kind == Kind::kReduceScatter || call_.kind == Kind::kAlltoAll ||
         call_.kind == Kind::kScatter;
}

// Returns whether this rank waits for the others now.
bool Collective::come() {
  number_ = ++comm_->collectives;
  const int rank = comm_->place.rank;
  if (comm_->settings.injects("async_error", rank, number_)) {
    comm_->fail(Failure(ncclRemoteError, "GRADSYNC_PAPER_NCCL: async_error at collective ", number_,
                        " of rank ", rank));
    comm_->never_comes = true;
    return false;
  }
  if (comm_->settings.injects("never", rank, number_) && comm_->place.seats > 1) {
    comm_->never_comes = true;
    return false;
  }
  if (comm_->never_comes) return true;
  Seat& mine = comm_->my_seat();
  mine.tickets[number_ % 2] = ticket_of(call_);
  if (call_.moves()) give();
  mine.collectives = number_;
  comm_->meeting.ring();
  return true;
}

void Collective::give() const {
  const bool only_root = call_.kind == Kind::kBroadcast || call_.kind == Kind::kScatter;
  if (only_root && call_.root != comm_->place.rank) return;
  if (!has_chunks()) {
    give_chunk(0, 0);
    return;
  }
  for (int i = 0; i < comm_->place.seats; ++i) {
    give_chunk(i, static_cast<std::size_t>(comm_->rank_of(i)) * call_.bytes());
  }
}

void Collective::give_chunk(int reader, std::size_t offset) const {
  char* to = comm_->meeting.given(comm_->seat(), number_, reader);
  std::memcpy(to, static_cast<const char*>(call_.send) + offset, call_.bytes());
  if (call_.op < ncclNumOps) return;
  const Scalar& scalar = call_.scalar;
  multiply(call_.type, scalar.device != nullptr ? scalar.device : scalar.value.data(), call_.count,
           to);
}

void Collective::compare(int seat) const {
  const Ticket& theirs = comm_->meeting.seat(seat).tickets[number_ % 2];
  const Ticket mine = ticket_of(call_);
  if (theirs == mine) return;
  throw Failure(ncclInvalidUsage, "the ranks disagree in collective ", number_, ": rank ",
                comm_->place.rank, " called ", described(mine), "; rank ", seat, " called ",
                described(theirs));
}

std::optional<Wait> Collective::operator()() {
  if (number_ == 0 && !come()) return std::nullopt;
  std::optional<Wait> wait;
  for (int i = 0; i < comm_->place.seats; ++i) {
    if (comm_->meeting.seat(i).collectives >= number_) {
      compare(i);
    } else if (!wait && i != comm_->seat()) {
      wait =
          Wait{comm_, i,
               "collective " + std::to_string(number_) + " (" + described(ticket_of(call_)) + ")"};
    }
  }
  if (wait) return wait;
  if (call_.moves()) take();
  return std::nullopt;
}

void Collective::take() const {
  const bool is_root = call_.root < 0 || call_.root == comm_->place.rank;
  switch (call_.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kReduceScatter:
      if (is_root) take_reduced();
      break;
    case Kind::kAllGather:
    case Kind::kAlltoAll:
    case Kind::kGather:
      if (is_root) take_gathered();
      break;
    default:
      take_from_root();
  }
}

void Collective::take_reduced() const {
  const int size = comm_->place.size, seats = comm_->place.seats;
  std::vector<Part> parts;
  for (int i = 0; i < seats; ++i) {
    parts.push_back({given(i), static_cast<std::uint64_t>(size / seats + (i < size % seats))});
  }
  note_copy(call_.receive, own_share(), call_.bytes());
  reduce(call_.type, call_.op, parts, call_.count, call_.receive);
}

void Collective::take_gathered() const {
  auto* to = static_cast<char*>(call_.receive);
  for (int rank = 0; rank < comm_->place.size; ++rank, to += call_.bytes()) {
    note_copy(to, own_share(), call_.bytes());
    std::memcpy(to, given(comm_->seat_of(rank)), call_.bytes());
  }
}

void Collective::take_from_root() const {
  if (comm_->is_real(call_.root)) {
    if (call_.root == comm_->place.rank) {
      note_copy(call_.receive, own_share(), call_.bytes());
    } else {
      note_written(call_.receive, call_.bytes());
    }
    std::memcpy(call_.receive, given(comm_->seat_of(call_.root)), call_.bytes());
  } else if (call_.kind == Kind::kBroadcast && call_.send != nullptr) {
    std::memmove(call_.receive, call_.send, call_.bytes());
  }
}

std::optional<Wait> Send::operator()() const {
  if (!comm_->is_real(call_.root)) return std::nullopt;
  const int peer = comm_->seat_of(call_.root);
  Channel& channel = comm_->meeting.channel(comm_->seat(), peer);
  if (channel.sent - channel.received >= kPendingMessages) {
    return Wait{comm_, peer,
                "the receipt of message " + std::to_string(channel.received + 1) + " of rank " +
                    std::to_string(comm_->place.rank)};
  }
  Message& message = channel.messages[channel.sent % kPendingMessages];
  message.count = call_.count;
  message.type = call_.type;
  if (call_.moves()) std::memcpy(message.bytes, call_.send, call_.bytes());
  ++channel.sent;
  comm_->meeting.ring();
  return std::nullopt;
}

std::optional<Wait> Receive::operator()() const {
  if (!comm_->is_real(call_.root)) {
    if (call_.moves()) std::memset(call_.receive, 0, call_.bytes());
    return std::nullopt;
  }
  const int peer = comm_->seat_of(call_.root);
  Channel& channel = comm_->meeting.channel(peer, comm_->seat());
  const std::string number = std::to_string(channel.received + 1);
  const std::string me = "rank " + std::to_string(comm_->place.rank);
  if (channel.sent == channel.received) {
    return Wait{
        comm_, peer,
        "Send of message " + number + " to " + me + " (" + amount(call_.count, call_.type) + ")"};
  }
  const Message& message = channel.messages[channel.received % kPendingMessages];
  if (message.count != call_.count || message.type != call_.type) {
    throw Failure(ncclInvalidUsage, "the ranks disagree in message ", number, ": ", me,
                  " called Recv of ", amount(call_.count, call_.type), "; rank ", call_.root,
                  " called Send of ", amount(message.count, message.type));
  }
  if (call_.moves()) {
    note_written(call_.receive, call_.bytes());
    std::memcpy(call_.receive, message.bytes, call_.bytes());
  }
  ++channel.received;
  comm_->meeting.ring();
  return std::nullopt;
}

}  // namespace gradsync::paper::nccl
