#include "harness/comm/gloo_loop.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/epoll.h>

#include <atomic>
#include <cstdint>

namespace gradsync::comm {
namespace {

// A loop that works gets the same event again for as long as a peer keeps sending, but not that
// often without another in between.
constexpr int kSameInARow = 4;

std::atomic<bool> yields{false};

struct LastEvents {
  std::uint64_t which = 0;
  int times = 0;  // in a row
};

bool come_again(const epoll_event* events, int ready) {
  thread_local LastEvents last;
  std::uint64_t which = 0;
  for (int i = 0; i < ready; ++i) which ^= events[i].data.u64;
  last.times = which == last.which ? last.times + 1 : 1;
  last.which = which;
  return last.times > kSameInARow;
}

}  // namespace

void let_gloo_loop_yield(bool yield) {
  yields.store(yield, std::memory_order_relaxed);
}

}  // namespace gradsync::comm

// Stands before the C library's for every library of the process, torch's among them: a program's
// own symbols are found first.
extern "C" __attribute__((visibility("default"))) int epoll_wait(int epoll, epoll_event* events,
                                                                 int most, int timeout_ms) {
  using Wait = int (*)(int, epoll_event*, int, int);
  static const Wait wait = reinterpret_cast<Wait>(::dlsym(RTLD_NEXT, "epoll_wait"));
  const int ready = wait(epoll, events, most, timeout_ms);
  if (ready > 0 && gradsync::comm::yields.load(std::memory_order_relaxed) &&
      gradsync::comm::come_again(events, ready)) {
    ::sched_yield();
  }
  return ready;
}
