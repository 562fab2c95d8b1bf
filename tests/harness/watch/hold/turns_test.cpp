// A process that takes steps, and its holder: both ends of the file of turns.
// Covers: hold.cpp.
#include "harness/watch/hold/turns.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/watch/inject/preload/hold.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::watch {
namespace {

using test::TemporaryFolder;

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StrEq;

constexpr double kLongEnoughToSlipS = 0.05;
constexpr double kLongEnoughToLookForHolderS = 0.7;
constexpr double kHangS = 120;

void sleep_s(double duration_s) {
  steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(duration_s));
}

// Waits however slow the machine is; false after what only a hang takes.
bool comes_true(const std::function<bool()>& condition) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(kHangS);
  while (!condition()) {
    if (steady_clock().now_ns() > deadline_ns) return false;
    sleep_s(0.001);
  }
  return true;
}

// A child that does `body`; killed at the end of its scope where it still runs.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    body();
    ::_exit(0);
  }
  ~Child() {
    if (pid_ > 0) kill();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  bool has_ended() {
    if (pid_ > 0 && ::waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
    return pid_ < 0;
  }
  int status() const { return status_; }  // once it has ended
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_;
  int status_ = 0;
};

void take_steps(const std::string& folder, int steps) {
  Hold hold;
  hold.open(folder.c_str());
  for (int i = 0; i < steps; ++i) hold.step_ended();
}

std::int64_t ended(const Turns& turns) {
  const auto takers = turns.takers();
  return takers.empty() ? 0 : takers.front().ended;
}

TEST(Hold, WithoutTurnsNobodyIsHeld) {
  const TemporaryFolder folder;
  Hold hold;
  hold.open(folder.path().c_str());
  EXPECT_EQ(hold.step_ended(), nullptr);
  const Turns late(folder.path());  // the job goes on as it began
  EXPECT_EQ(hold.step_ended(), nullptr);
  EXPECT_THAT(late.takers(), IsEmpty());
}

TEST(Hold, TakesAsManyStepsAsItMayAndWaits) {
  const TemporaryFolder folder;
  Turns turns(folder.path());
  Child job([&] { take_steps(folder.path(), 9); });
  ASSERT_TRUE(comes_true([&] { return turns.arrivals() == 1; }));
  EXPECT_EQ(ended(turns), 1);  // of the first step nobody knew before
  turns.allow(4);
  ASSERT_TRUE(comes_true([&] { return turns.arrivals() == 2; }));
  sleep_s(kLongEnoughToSlipS);
  EXPECT_EQ(ended(turns), 4);
  EXPECT_EQ(turns.takers().front().pid, job.pid());
  turns.allow(9);
  ASSERT_TRUE(comes_true([&] { return turns.arrivals() == 3; }));
  EXPECT_EQ(ended(turns), 9);
  turns.free();
  EXPECT_EQ(job.wait(), 0);
}

TEST(Hold, WhoCanOpenNoFileIsHeldOn) {
  const TemporaryFolder folder;
  Turns turns(folder.path());
  turns.allow(2);
  Child job([&] {
    Hold hold;
    hold.open(folder.path().c_str());
    hold.step_ended();
    const rlimit no_files{0, 0};
    if (::setrlimit(RLIMIT_NOFILE, &no_files) == 0) hold.step_ended();
  });
  ASSERT_TRUE(comes_true([&] { return turns.arrivals() == 1; }));
  sleep_s(kLongEnoughToLookForHolderS);
  EXPECT_FALSE(job.has_ended());
  turns.free();
  EXPECT_EQ(job.wait(), 0);
}

TEST(Hold, AStepBeginsWhereTheOneBeforeEndedOrAtItsRelease) {
  const TemporaryFolder folder;
  Turns turns(folder.path());
  Child job([&] { take_steps(folder.path(), 9); });
  ASSERT_TRUE(comes_true([&] { return turns.arrivals() == 1; }));
  const std::int64_t released_ns = steady_clock().now_ns();
  turns.allow(3);
  ASSERT_TRUE(comes_true([&] { return turns.arrivals() == 2; }));
  const Turns::Taker taker = turns.takers().front();
  const std::vector<TakenStep> steps = turns.steps(taker, 0, 3);
  ASSERT_THAT(steps, SizeIs(3));
  EXPECT_EQ(steps[0].start_ns, 0);
  EXPECT_LT(steps[0].end_ns, released_ns);
  EXPECT_GE(steps[1].start_ns, released_ns);
  EXPECT_EQ(steps[2].start_ns, steps[1].end_ns);
  EXPECT_EQ(steps[2].phases.backward_ns, -1) << "nobody said";
  EXPECT_THROW(turns.steps(taker, 0, 4), InternalError);
}

TEST(Hold, EndsTheProcessWhenItsHolderIsKilled) {
  const TemporaryFolder folder;
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  Child holder([&] {
    Turns turns(folder.path());
    turns.allow(2);
    if (::write(ready[1], "!", 1) == 1) ::pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  Child job([&] { take_steps(folder.path(), 1000); });
  sleep_s(kLongEnoughToSlipS);
  EXPECT_FALSE(job.has_ended()) << "it was not held";
  holder.kill();
  ASSERT_TRUE(comes_true([&] { return job.has_ended(); }));
  ASSERT_TRUE(WIFSIGNALED(job.status()));
  EXPECT_EQ(WTERMSIG(job.status()), SIGTERM);
}

TEST(Hold, GoesOnWhenItsHolderLetsGo) {
  const TemporaryFolder folder;
  auto turns = std::make_unique<Turns>(folder.path());
  Child job([&] { take_steps(folder.path(), 1000); });
  ASSERT_TRUE(comes_true([&] { return turns->arrivals() == 1; }));
  turns.reset();
  EXPECT_EQ(job.wait(), 0);
}

TEST(Hold, AForkedProcessTakesAPlaceOfItsOwn) {
  const TemporaryFolder folder;
  Turns turns(folder.path());
  turns.allow(10);
  Hold hold;
  hold.open(folder.path().c_str());
  hold.step_ended();
  Child child([&] {
    hold.after_fork();
    hold.step_ended();
    hold.step_ended();
  });
  const pid_t pid = child.pid();
  EXPECT_EQ(child.wait(), 0);
  const auto takers = turns.takers();
  ASSERT_THAT(takers, SizeIs(2));
  EXPECT_EQ(takers[0].pid, ::getpid());
  EXPECT_EQ(takers[0].ended, 1);
  EXPECT_EQ(takers[1].pid, pid);
  EXPECT_EQ(takers[1].ended, 2);
}

TEST(Hold, WhatIsNoFileOfTurnsIsASentenceAndHoldsNobody) {
  const TemporaryFolder folder;
  folder.write(kTurnsFile, "something else");
  Hold hold;
  hold.open(folder.path().c_str());
  EXPECT_THAT(hold.step_ended(), StrEq("it cannot take turns: their file is none of this version"));
  EXPECT_EQ(hold.step_ended(), nullptr);
}

TEST(Hold, MoreProcessesThanThereArePlacesAreNotHeld) {
  const TemporaryFolder folder;
  Turns turns(folder.path());
  turns.allow(10);
  for (std::size_t i = 0; i < kMostTakers; ++i) take_steps(folder.path(), 1);
  Hold late;
  late.open(folder.path().c_str());
  EXPECT_THAT(late.step_ended(), StrEq("it cannot take turns: too many processes do"));
  EXPECT_THAT(turns.takers(), SizeIs(kMostTakers));
}

// A process may die between taking a place and saying whose it is.
TEST(Turns, APlaceThatNobodyHasMovesNobodysSteps) {
  const TemporaryFolder folder;
  Turns turns(folder.path());
  const std::uint32_t claimed = 1;
  const launch::UniqueFd file(::open((folder.path() + "/" + kTurnsFile).c_str(), O_WRONLY));
  ASSERT_EQ(::pwrite(file.get(), &claimed, sizeof claimed, offsetof(TurnsTable, claimed)),
            static_cast<ssize_t>(sizeof claimed));
  turns.allow(3);
  take_steps(folder.path(), 2);
  ASSERT_THAT(turns.takers(), SizeIs(1));
  const std::vector<TakenStep> steps = turns.steps(turns.takers().front(), 0, 2);
  EXPECT_GT(steps[0].end_ns, 0);
  EXPECT_EQ(steps[1].start_ns, steps[0].end_ns);
}

TEST(Turns, KeepTheLatestSteps) {
  const TemporaryFolder folder;
  Turns turns(folder.path());
  const auto all = static_cast<std::int64_t>(kKeptSteps) + 5;
  turns.allow(2 * all);
  take_steps(folder.path(), static_cast<int>(all));
  const Turns::Taker taker = turns.takers().front();
  const std::vector<TakenStep> last = turns.steps(taker, all - 2, 2);
  EXPECT_EQ(last[1].start_ns, last[0].end_ns);
  EXPECT_EQ(turns.steps(taker, 5, 1).front().start_ns > 0, true);
  EXPECT_THROW(turns.steps(taker, 4, 1), InternalError);
}

TEST(Turns, AFolderThatCannotBeWrittenIsAnError) {
  EXPECT_THAT([] { Turns("/proc/nowhere"); },
              testing::ThrowsMessage<EnvironmentError>(HasSubstr("/proc/nowhere/turns")));
}

}  // namespace
}  // namespace gradsync::watch
