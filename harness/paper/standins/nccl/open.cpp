#include "harness/paper/standins/nccl/open.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "harness/paper/standins/nccl/log.h"

namespace gradsync::paper::nccl {
namespace {

// NCCL's number of a GPU: its bus id without separators, in hex.
std::string bus_number(const char* bus) {
  std::string digits;
  for (; *bus != '\0'; ++bus) {
    if (*bus != ':' && *bus != '.') digits += *bus;
  }
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string::npos ? "0" : digits.substr(first);
}

[[noreturn]] void refuse_duplicate(int first, int second, const char* bus) {
  throw Failure(ncclInvalidUsage, "Duplicate GPU detected : rank ", first, " and rank ", second,
                " both on CUDA device ", bus_number(bus));
}

void log_opened(const ncclComm& comm) {
  const auto say = [&](const auto&... parts) { log_info(comm.device, parts...); };
  const int rank = comm.place.rank, size = comm.place.size;
  say("NCCL version ", NCCL_MAJOR, ".", NCCL_MINOR, ".", NCCL_PATCH);
  if (comm.place.seats > 1) {
    const int next = (comm.seat() + 1) % comm.place.seats;
    const Seat& other = comm.meeting.seat(next);
    const bool is_near = std::strcmp(comm.my_seat().host, other.host) == 0;
    say("Channel 00/0 : ", rank, "[", comm.device, "] -> ", next, "[", other.device, "] ",
        is_near ? "via P2P/CUMEM" : "[send] via NET/Socket/0");
  }
  say("1 coll channels, 0 collnet channels, 0 nvls channels, 1 p2p channels");
  say("ncclCommInitRank comm rank ", rank, " nranks ", size, " cudaDev ", comm.device, " busId ",
      bus_number(comm.my_seat().bus), " - Init COMPLETE");
}

}  // namespace

Place place_of(int size, int rank, const Settings& settings) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw Failure(ncclInvalidArgument, "rank ", rank, " of ", size, " ranks is not possible");
  }
  if (settings.world == 0 || size <= settings.real) return {size, rank, size};
  if (size != settings.world || settings.real == 1) return {size, rank, 1};
  if (rank < settings.real) return {size, rank, settings.real};
  throw Failure(ncclInvalidArgument, "rank ", rank,
                " is absent: ranks from GRADSYNC_PAPER_REAL=", settings.real, " on are");
}

std::optional<Wait> Join::operator()() {
  std::optional<Wait> wait;
  for (int i = 0; i < comm_->place.seats; ++i) {
    const Seat& seat = comm_->meeting.seat(i);
    if (seat.presence.load() <= Presence::kComing) {
      if (!wait) wait = Wait{comm_, i, "the opening of the communicator"};
    } else if (seat.ranks != comm_->place.size) {
      throw Failure(ncclInvalidUsage, "the ranks disagree on their number: rank ",
                    comm_->place.rank, " says ", comm_->place.size, ", rank ", i, " says ",
                    seat.ranks);
    }
  }
  if (wait) return wait;
  comm_->meeting.close();
  verify();
  log_opened(*comm_);
  *out_ = publish(comm_);
  return std::nullopt;
}

void Join::verify() const {
  if (comm_->settings.injects("duplicate_gpu") && comm_->place.size > 1) {
    refuse_duplicate(0, 1, comm_->meeting.seat(0).bus);
  }
  const char* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (shared != nullptr && std::strcmp(shared, "1") == 0) return;
  for (int first = 0; first < comm_->place.seats; ++first) {
    for (int second = first + 1; second < comm_->place.seats; ++second) {
      const Seat &one = comm_->meeting.seat(first), &other = comm_->meeting.seat(second);
      if (std::strcmp(one.host, other.host) != 0 || std::strcmp(one.bus, other.bus) != 0) continue;
      refuse_duplicate(first, second, one.bus);
    }
  }
}

Regroup::Regroup(Communicator parent, ncclComm_t* out, int color, int key, std::set<int> excluded)
    : parent_(std::move(parent)),
      out_(out),
      color_(color),
      key_(key),
      excluded_(std::move(excluded)) {}

void Regroup::tell_others() {
  number_ = ++parent_->invitations;
  Seat& mine = parent_->my_seat();
  mine.invitation[number_ % 2] = {color_, key_, invite()};
  mine.invitations = number_;
  parent_->meeting.ring();
}

std::optional<Wait> Regroup::operator()() {
  if (join_) return (*join_)();
  if (number_ == 0) tell_others();
  for (int i = 0; i < parent_->place.seats; ++i) {
    if (excluded_.count(parent_->rank_of(i)) != 0) continue;
    if (parent_->meeting.seat(i).invitations >= number_) continue;
    return Wait{parent_, i, excluded_.empty() ? "ncclCommSplit" : "ncclCommShrink"};
  }
  open_group();
  if (!join_) return std::nullopt;
  return (*join_)();
}

void Regroup::open_group() {
  const auto invitation = [&](int seat) -> const Invitation& {
    return parent_->meeting.seat(seat).invitation[number_ % 2];
  };
  std::vector<int> members;
  for (int i = 0; i < parent_->place.seats; ++i) {
    if (excluded_.count(parent_->rank_of(i)) == 0 && invitation(i).color == color_) {
      members.push_back(i);
    }
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int one, int other) { return invitation(one).key < invitation(other).key; });
  const int mine = parent_->seat();
  if (color_ == NCCL_SPLIT_NOCOLOR || members.front() != mine) withdraw(invitation(mine).id);
  *out_ = nullptr;
  if (color_ == NCCL_SPLIT_NOCOLOR) return;
  Place place{parent_->place.size - static_cast<int>(excluded_.size()), 0,
              static_cast<int>(members.size())};
  if (excluded_.empty()) place.size = place.seats;
  const auto me = std::find(members.begin(), members.end(), mine);
  place.rank = parent_->place.seats > 1
                   ? static_cast<int>(me - members.begin())
                   : parent_->place.rank -
                         static_cast<int>(std::distance(
                             excluded_.begin(), excluded_.lower_bound(parent_->place.rank)));
  const auto comm = std::make_shared<ncclComm>(parent_->settings, invitation(members.front()).id,
                                               place, parent_->device);
  join_.emplace(comm, out_);
}

}  // namespace gradsync::paper::nccl
