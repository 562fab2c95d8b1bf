// Programs that are started, with what of ours they get, and how they end.
#include "harness/base/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "tests/models/temporary_folder.h"

namespace gradsync {
namespace {

constexpr double kLongS = 60;

class SpawnTest : public testing::Test {
 protected:
  // What `script` wrote to its standard output once it has ended.
  std::string output_of(Spawn& program) {
    program.open(STDOUT_FILENO, file_, O_WRONLY | O_CREAT | O_TRUNC);
    pid_t pid = 0;
    EXPECT_EQ(program.start(pid), 0);
    EXPECT_TRUE(wait_for_end(pid, kLongS).has_value());
    std::ifstream file(file_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  test::TemporaryFolder folder_;
  std::string file_ = folder_.file("output");
};

TEST_F(SpawnTest, HasOurEnvironmentOrTheOneThatIsGiven) {
  ::setenv("GRADSYNC_TEST_OURS", "ours", 1);
  Spawn ours({"sh", "-c", "echo $GRADSYNC_TEST_OURS"});
  EXPECT_EQ(output_of(ours), "ours\n");
  Spawn given({"/bin/sh", "-c", "echo $GRADSYNC_TEST_OURS $GIVEN"});
  EXPECT_EQ(output_of(given.environment({"GIVEN=given"})), "given\n");
}

TEST_F(SpawnTest, StreamsAreDuplicatedInTheOrderOfTheCalls) {
  Spawn program({"sh", "-c", "echo out; echo err >&2"});
  program.open(STDOUT_FILENO, file_, O_WRONLY | O_CREAT | O_TRUNC);
  program.duplicate(STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  ASSERT_EQ(program.start(pid), 0);
  ASSERT_TRUE(wait_for_end(pid, kLongS).has_value());
  std::ifstream file(file_);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "out\nerr\n");
}

TEST_F(SpawnTest, AGroupOfItsOwnEndsTogether) {
  Spawn program({"sh", "-c", "sleep 1000 & sleep 1000"});
  pid_t pid = 0;
  ASSERT_EQ(program.in_own_group().start(pid), 0);
  EXPECT_EQ(::getpgid(pid), pid);
  EXPECT_EQ(wait_for_end(pid, 0.02), std::nullopt);
  ::kill(-pid, SIGKILL);
  const auto status = wait_for_end(pid, kLongS);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(describe_end(*status), "was killed by signal 9 (Killed)");
}

TEST_F(SpawnTest, SignalsAreHeldBackAsAsked) {
  sigset_t terminate;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  Spawn program({"sh", "-c", "kill -TERM $$; echo still here"});
  EXPECT_EQ(output_of(program.blocking(terminate)), "still here\n");
}

TEST_F(SpawnTest, WhatIsNoProgramHasItsError) {
  pid_t pid = 0;
  EXPECT_EQ(Spawn({"/nonexistent/program"}).start(pid), ENOENT);
  EXPECT_EQ(Spawn({folder_.write("text", "no program")}).start(pid), EACCES);
}

TEST(DescribeEnd, SaysTheStatus) {
  pid_t pid = 0;
  ASSERT_EQ(Spawn({"sh", "-c", "exit 3"}).start(pid), 0);
  const auto status = wait_for_end(pid, kLongS);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(describe_end(*status), "exited with status 3");
}

}  // namespace
}  // namespace gradsync
