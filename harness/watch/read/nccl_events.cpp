#include "harness/watch/read/nccl_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {
namespace {

// One of c10d's, and the calls that it made.
struct Operation {
  Event* event;
  std::vector<const Event*> calls;
};

// All of a process, by thread and time.
class Operations {
 public:
  // `events` by time; they must outlive this, and stay where they are.
  explicit Operations(std::vector<Event>& events) {
    for (Event& event : events) {
      if (event.kind == EventKind::Collective) by_thread_[event.thread].push_back({&event, {}});
    }
  }

  // Returns the operation that made the call; null where none did. One whose return was not
  // recorded lasts until the next one on its thread.
  Operation* of(const Event& call) {
    std::vector<Operation>& all = by_thread_[call.thread];
    const auto next = std::ranges::upper_bound(
        all, call.start_ns, {}, [](const Operation& each) { return each.event->start_ns; });
    if (next == all.begin()) return nullptr;
    Operation& last = *std::prev(next);
    const std::int64_t issued_ns = last.event->issued_ns;
    return issued_ns != 0 && issued_ns < call.start_ns ? nullptr : &last;
  }

  template <typename Act>
  void for_each(Act act) {
    for (auto& [thread, all] : by_thread_) {
      for (Operation& operation : all) act(operation);
    }
  }

 private:
  std::map<std::int64_t, std::vector<Operation>> by_thread_;
};

// Returns whether c10d counts the bytes of a call: for a scatter only the receives, for a gather or
// all_to_all only the sends.
bool is_counted(const std::string& op, const Event& call) {
  if (op == "scatter") return call.name != "send";
  if (op == "gather" || op == "all_to_all") return call.name != "recv";
  return true;
}

// Returns the bytes that c10d should have told; absent where its calls do not say. The root of a
// gather or scatter neither sends its own part nor receives it.
std::optional<std::int64_t> bytes_by_nccl(const Operation& operation) {
  const std::string& op = operation.event->name;
  if (op == "barrier") return std::nullopt;
  std::int64_t bytes = 0;
  int counted = 0;
  for (const Event* call : operation.calls) {
    if (!is_counted(op, *call)) continue;
    if (call->bytes < 0) return std::nullopt;
    bytes += call->bytes;
    ++counted;
  }
  if (counted == 0 && (op == "gather" || op == "scatter")) return std::nullopt;
  return bytes;
}

// How the operations of one name compare.
struct Account {
  int called = 0;   // that called NCCL
  int differs = 0;  // of these, in bytes
  int silent = 0;   // that did not, though their process group does
  std::int64_t c10d_bytes = 0;
  std::int64_t nccl_bytes = 0;
};

void compare(const Operation& operation, Account& account) {
  ++account.called;
  const auto bytes = bytes_by_nccl(operation);
  if (!bytes || operation.event->bytes == *bytes) return;
  if (operation.event->bytes < 0) {
    operation.event->bytes = *bytes;
    return;
  }
  ++account.differs;
  account.c10d_bytes += operation.event->bytes;
  account.nccl_bytes += *bytes;
}

// What a process with calls did besides.
struct Caller {
  std::set<std::int64_t> groups;   // of which operations called NCCL
  std::int64_t last_call_ns = -1;  // what came later may have calls that were not read yet
  bool is_alone = false;           // without a peer to send to, c10d copies some of them by itself
};

// Returns whether an operation must have called NCCL. One of another backend has its end recorded,
// or moved nothing.
bool should_have_called(const Event& event, const Caller& caller) {
  return !caller.is_alone && caller.groups.contains(event.object) &&
         event.end_ns == event.start_ns && event.bytes != 0 && event.issued_ns != 0 &&
         event.issued_ns <= caller.last_call_ns;
}

void check(Operations& operations, int world_size, std::vector<std::string>& faults) {
  Caller caller;
  caller.is_alone = world_size == 1;
  operations.for_each([&](const Operation& operation) {
    if (operation.calls.empty()) return;
    caller.groups.insert(operation.event->object);
    caller.last_call_ns = std::max(caller.last_call_ns, operation.calls.back()->start_ns);
  });
  std::map<std::string, Account> accounts;
  operations.for_each([&](const Operation& operation) {
    Account& account = accounts[operation.event->name];
    if (!operation.calls.empty()) {
      compare(operation, account);
    } else if (should_have_called(*operation.event, caller)) {
      ++account.silent;
    }
  });
  for (const auto& [op, account] : accounts) {
    if (account.differs > 0) {
      faults.push_back(
          fmt::format("{} of {} {} are {} bytes by what NCCL was called for, and {} by c10d",
                      account.differs, account.called, op, account.nccl_bytes, account.c10d_bytes));
    }
    if (account.silent > 0) {
      faults.push_back(fmt::format("{} of {} {} called nothing of NCCL, though their group does",
                                   account.silent, account.called + account.silent, op));
    }
  }
}

void tell_of_others(const std::vector<Event>& others, std::vector<std::string>& faults) {
  OpSums sums;
  for (const Event& call : others) {
    if (call.detail != kNcclReplayed) add(sums, call);
  }
  for (const auto& [op, sum] : sums) {
    faults.push_back(fmt::format(
        "NCCL was called for {} {} that no operation of c10d is known to have made: they "
        "count as well",
        sum.count, op));
  }
}

}  // namespace

void merge_nccl(RankEvents& process, const RankEvents& nccl) {
  if (process.rank < 0) process.rank = nccl.rank;
  if (process.world_size == 0) process.world_size = nccl.world_size;
  process.complete_until_ns = std::min(process.complete_until_ns, nccl.complete_until_ns);
  std::vector<Event> others;
  {
    Operations operations(process.events);
    for (const Event& call : nccl.events) {
      Operation* operation = call.detail == kNcclReplayed ? nullptr : operations.of(call);
      if (operation == nullptr) {
        others.push_back(call);
      } else {
        operation->calls.push_back(&call);
        operation->event->is_captured = call.is_captured;  // all of them are on one stream
      }
    }
    check(operations, process.world_size, process.faults);
  }
  tell_of_others(others, process.faults);
  process.events.insert(process.events.end(), others.begin(), others.end());
  sort_by_time(process.events);
  process.faults.insert(process.faults.end(), nccl.faults.begin(), nccl.faults.end());
}

void add_nccl_calls(std::vector<RankEvents> nccl, std::vector<RankEvents>& processes) {
  for (RankEvents& calls : nccl) {
    const auto same = std::ranges::find(processes, calls.pid, &RankEvents::pid);
    if (same == processes.end()) {
      processes.push_back(std::move(calls));
    } else {
      merge_nccl(*same, calls);
    }
  }
}

}  // namespace gradsync::watch
