#include "harness/comm/gloo_loop.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

namespace {

std::atomic<int> yields{0};

}  // namespace

// In place of the C library's, to be counted.
extern "C" int sched_yield() noexcept {
  ++yields;
  return 0;
}

namespace gradsync::comm {
namespace {

// One end of a pipe that can be read, and stays so.
class Readable {
 public:
  explicit Readable(int epoll) {
    EXPECT_EQ(::pipe(ends_.data()), 0);
    EXPECT_EQ(::write(ends_[1], "x", 1), 1);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = ends_[0];
    EXPECT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, ends_[0], &event), 0);
  }
  ~Readable() {
    for (const int end : ends_) ::close(end);
  }
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;

 private:
  std::array<int, 2> ends_{};
};

void wait_times(int epoll, int times) {
  epoll_event event{};
  for (int i = 0; i < times; ++i) ASSERT_EQ(::epoll_wait(epoll, &event, 1, 1000), 1);
}

// How often a fresh thread yields in `work`.
template <typename Work>
int yields_in(const Work& work) {
  yields = 0;
  std::thread(work).join();
  return yields;
}

class GlooLoop : public ::testing::Test {
 protected:
  ~GlooLoop() override {
    let_gloo_loop_yield(false);
    ::close(first_);
    ::close(second_);
  }

  int first_ = ::epoll_create1(0);
  int second_ = ::epoll_create1(0);
  Readable in_first_{first_};
  Readable in_second_{second_};
};

TEST_F(GlooLoop, SpinsUntilItIsToldToYield) {
  EXPECT_EQ(yields_in([&] { wait_times(first_, 20); }), 0);
  let_gloo_loop_yield(true);
  EXPECT_EQ(yields_in([&] { wait_times(first_, 20); }), 16) << "four may be progress";
  let_gloo_loop_yield(false);
  EXPECT_EQ(yields_in([&] { wait_times(first_, 20); }), 0);
}

TEST_F(GlooLoop, OneThatMakesProgressDoesNotYield) {
  let_gloo_loop_yield(true);
  EXPECT_EQ(yields_in([&] {
              for (int i = 0; i < 10; ++i) {
                wait_times(first_, 2);
                wait_times(second_, 2);
              }
            }),
            0);
}

TEST_F(GlooLoop, AWaitThatRunsOutOfTimeIsNoSpin) {
  let_gloo_loop_yield(true);
  const int nothing = ::epoll_create1(0);
  EXPECT_EQ(yields_in([&] {
              epoll_event event{};
              for (int i = 0; i < 20; ++i) ASSERT_EQ(::epoll_wait(nothing, &event, 1, 0), 0);
            }),
            0);
  ::close(nothing);
}

// torch's library calls what the loader finds first.
TEST_F(GlooLoop, StandsBeforeTheCLibrarys) {
  Dl_info found{};
  ASSERT_NE(::dladdr(::dlsym(RTLD_DEFAULT, "epoll_wait"), &found), 0);
  Dl_info own{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&let_gloo_loop_yield), &own), 0);
  EXPECT_EQ(found.dli_fbase, own.dli_fbase) << found.dli_fname;
}

}  // namespace
}  // namespace gradsync::comm
