// Waiting for threads that finish what others began.
#include "harness/watch/inject/preload/helping_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace gradsync::watch {
namespace {

// A thread that works until the test stops it, then sleeps until the test ends it.
class Helper {
 public:
  explicit Helper(HelpingThreads& threads) : thread_([this, &threads] { run(threads); }) {
    while (!is_added_) std::this_thread::yield();
  }
  ~Helper() {
    work_is_over = true;
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  std::atomic<bool> work_is_over{false};
  std::atomic<bool> has_let_go{false};

 private:
  void run(HelpingThreads& threads) {
    threads.add_this();
    threads.add_this();
    threads.wait_until_resting();  // not for itself
    is_added_ = true;
    while (!work_is_over) {
    }
    has_let_go = true;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_over_; });
  }

  std::atomic<bool> is_added_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

TEST(HelpingThreads, AreWaitedForUntilTheySleep) {
  HelpingThreads threads;
  Helper first(threads);
  Helper second(threads);
  second.work_is_over = true;
  first.work_is_over = true;
  threads.wait_until_resting();
  EXPECT_TRUE(first.has_let_go);
  EXPECT_TRUE(second.has_let_go);
}

TEST(HelpingThreads, AreNotWaitedForInVain) {
  HelpingThreads threads;
  Helper busy(threads);
  threads.wait_until_resting();
  EXPECT_FALSE(busy.has_let_go);
}

TEST(HelpingThreads, ThatAreGoneAreNotWaitedFor) {
  HelpingThreads threads;
  { Helper gone(threads); }
  threads.wait_until_resting();
}

}  // namespace
}  // namespace gradsync::watch
