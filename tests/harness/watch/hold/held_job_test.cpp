#include "harness/watch/hold/held_job.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/watch/read/read_events.h"
#include "tests/models/temporary_folder.h"
#include "tests/paths.h"

namespace gradsync::watch {
namespace {

using test::TemporaryFolder;

using testing::AllOf;
using testing::DoubleNear;
using testing::Each;
using testing::Field;
using testing::Gt;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StrEq;
using testing::ThrowsMessage;

// Returns whether the process is gone, or dead and not reaped yet by the process that inherited it.
bool is_dead(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  return !std::getline(file, stat) || stat.find(") Z") != std::string::npos;
}

class HeldJobTest : public testing::Test {
 protected:
  JobStart start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), test::path_of("take_steps"));
    return start_of(std::move(arguments));
  }

  JobStart start_of(std::vector<std::string> command) const {
    return {std::move(command), {{kFolderVariable, events_.path()}}, events_.path(), log()};
  }

  std::string log() const { return logs_.path() + "/job.log"; }

  std::string logged() const {
    std::ostringstream text;
    text << std::ifstream(log()).rdbuf();
    return text.str();
  }

  void expect_all_dead() const {
    for (const JobPlace& place : places_so_far(events_.path())) {
      EXPECT_TRUE(is_dead(place.pid)) << place.pid;
    }
  }

  TemporaryFolder events_;
  TemporaryFolder logs_;
};

TEST_F(HeldJobTest, TakesBlocksOfSteps) {
  HeldJob job(start({"2", "10"}));
  const TakenBlock first = job.run(3);
  EXPECT_THAT(first.failure, StrEq(""));
  ASSERT_THAT(first.processes, SizeIs(2));
  EXPECT_EQ(first.processes[0].rank, 0);
  EXPECT_EQ(first.processes[1].rank, 1);
  EXPECT_THAT(first.processes[0].step_s, SizeIs(2));  // nobody saw the first begin
  EXPECT_EQ(job.ended(), 3);
  EXPECT_EQ(job.world_size(), 2);
  const TakenBlock second = job.run(7);
  for (const TakenSteps& process : second.processes) {
    EXPECT_THAT(process.step_s, AllOf(SizeIs(7), Each(Gt(0))));
    ASSERT_THAT(process.phase_s, SizeIs(4));
    EXPECT_THAT(process.phase_s.at("backward"), AllOf(SizeIs(7), Each(DoubleNear(30e-9, 1e-15))));
    EXPECT_THAT(process.phase_s.at("backward to optimizer"), Each(DoubleNear(20e-9, 1e-15)));
    EXPECT_THAT(process.phase_s.at("optimizer"), Each(DoubleNear(10e-9, 1e-15)));
    EXPECT_NEAR(process.phase_s.at("forward")[6], process.step_s[6] - 60e-9, 1e-15);
  }
  EXPECT_EQ(job.ended(), 10);
}

TEST_F(HeldJobTest, WaitsForTheSlowestRank) {
  HeldJob job(start({"2", "10", "late"}));
  for (const int steps : {4, 3, 3}) {
    const TakenBlock block = job.run(steps);
    ASSERT_THAT(block.processes, SizeIs(2));
    EXPECT_EQ(block.processes[0].step_s.size(), block.processes[1].step_s.size());
    EXPECT_THAT(block.processes[1].step_s, Each(Gt(0.02)));
  }
}

TEST_F(HeldJobTest, AJobThatIsOverMadeFewerSteps) {
  HeldJob job(start({"2", "10"}));
  EXPECT_THAT(job.run(4).failure, StrEq(""));
  const TakenBlock rest = job.run(8);
  EXPECT_THAT(rest.failure, StrEq("made 10 of 12 steps, then exited with status 0"));
  EXPECT_TRUE(rest.ended_well);
  EXPECT_FALSE(job.is_running());
  EXPECT_THAT(job.run(1).failure, StrEq("made 10 of 13 steps, then exited with status 0"));
}

TEST_F(HeldJobTest, AJobThatFailsSaysItsLastWords) {
  HeldJob job(start({"2", "2", "fail"}));
  const TakenBlock block = job.run(3);
  EXPECT_THAT(
      block.failure,
      StrEq("made 2 of 3 steps, then exited with status 3: ValueError: no data (" + log() + ")"));
  EXPECT_FALSE(block.ended_well);
  EXPECT_THAT(logged(), HasSubstr("all ranks run\nValueError"));
}

TEST_F(HeldJobTest, WhatALauncherLeavesBehindIsEnded) {
  HeldJob job(start({"2", "100", "orphan"}));
  TakenBlock block = job.run(1);
  if (block.failure.empty()) block = job.run(1'000);
  EXPECT_THAT(block.failure, HasSubstr("exited with status 1"));
  expect_all_dead();
}

TEST_F(HeldJobTest, RunsToItsEndUnheld) {
  HeldJob job(start({"2", "250"}));  // more than it is allowed at once
  const JobEnd end = job.finish();
  EXPECT_EQ(end.steps, 250);
  EXPECT_TRUE(end.well);
  EXPECT_THAT(end.how, StrEq("exited with status 0"));
  EXPECT_THAT(job.run(1).failure, HasSubstr("then exited with status 0"));
}

TEST_F(HeldJobTest, SaysHowItsEndCame) {
  const JobEnd end = HeldJob(start({"2", "2", "fail"})).finish();
  EXPECT_EQ(end.steps, 2);
  EXPECT_FALSE(end.well);
  EXPECT_THAT(end.how, StrEq("exited with status 3: ValueError: no data (" + log() + ")"));
}

TEST_F(HeldJobTest, OneThatIsSilentIsEnded) {
  HeldJob job(start_of({"sleep", "1000"}), {.step_s = 0.2, .grace_s = 5});
  EXPECT_THAT(job.finish().how, HasSubstr("ended no step for"));
  EXPECT_FALSE(job.is_running());
}

TEST_F(HeldJobTest, EndsWithWhoeverHoldsIt) {
  {
    HeldJob job(start({"2", "100"}));
    job.run(5);
    EXPECT_THAT(places_so_far(events_.path()), SizeIs(2));
  }
  expect_all_dead();
}

TEST_F(HeldJobTest, AJobThatEndsNoStepIsEnded) {
  HeldJob job(start_of({"sleep", "1000"}), {.step_s = 0.2, .grace_s = 5});
  const TakenBlock block = job.run(1);
  EXPECT_THAT(block.failure, HasSubstr("made 0 of 1 steps, then ended no step for"));
  EXPECT_FALSE(job.is_running());
}

TEST_F(HeldJobTest, WhatThePollThrowsEndsTheWait) {
  HeldJob job(start_of({"sleep", "1000"}), {}, [] { throw std::runtime_error("enough"); });
  EXPECT_THAT([&] { job.run(1); }, ThrowsMessage<std::runtime_error>(StrEq("enough")));
}

TEST_F(HeldJobTest, RefusesWhatIsNoProgram) {
  EXPECT_THAT([&] { HeldJob(start_of({"no-such-program"})); },
              ThrowsMessage<ConfigError>(StrEq("no-such-program: No such file or directory")));
}

}  // namespace
}  // namespace gradsync::watch
