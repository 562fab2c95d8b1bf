// The gate's side of an arm: what it makes of a build that answers, and of all that do not. Where
// the arm must misbehave it is a script.
// Covers: arm_protocol.cpp, talking_child.cpp.
#include "harness/arms/arm_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "harness/base/errors.h"
#include "harness/coordinate/watched_group.h"
#include "harness/session/context.h"
#include "tests/paths.h"

namespace gradsync::arms {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlan = R"({
  "schema": "gradsync.plan/1", "name": "quick",
  "cells": {"topology": ["1x2"], "model": ["mlp"], "strategy": ["baseline", "no_sync"],
            "accumulation_steps": [2]},
  "timeout_s": 60})";

// What a script says to be taken for an arm with one launch of one cell.
constexpr const char* kHello =
    R"(echo '{"schema": "gradsync.arm/1", "event": "hello", "build": {},)"
    R"( "launches": [{"part": "", "topology": "1x2", "scale": 1, "cells": [{"model": "mlp"}]}]}')"
    "\n";
constexpr const char* kOpen = "read line\necho '{\"event\": \"opened\", \"launch\": 0}'\n";

class ArmProcessTest : public testing::Test {
 protected:
  ArmProcessTest() {
    std::string name = (fs::temp_directory_path() / "gradsync_arm_XXXXXX").string();
    place_ = ::mkdtemp(name.data());
  }
  ~ArmProcessTest() override { fs::remove_all(place_); }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = place_ / name;
    std::ofstream(path) << text;
    return path.string();
  }

  // A build directory whose program is this shell script.
  std::string build_of(const std::string& script) const {
    const std::string program = write("gradsync", "#!/bin/sh\n" + script);
    fs::permissions(program, fs::perms::owner_exec, fs::perm_options::add);
    return place_.string();
  }

  std::vector<std::string> real_arguments() const {
    session::RunOptions options;
    options.plan = write("plan.json", kPlan);
    options.overrides = {"seed=7"};
    return arm_arguments(options, 0);
  }

  // The complaint about a build whose program is this script.
  std::string complaint(const std::string& script, const ArmDeadlines& deadlines = {}) const {
    return complaint_about(build_of(script), deadlines);
  }
  static std::string complaint_about(const std::string& build, const ArmDeadlines& deadlines = {}) {
    try {
      const ArmProcess arm(build, {}, nullptr, deadlines);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted " + build;
  }

  std::string program() const { return (place_ / "gradsync").string(); }

  fs::path place_;
};

TEST_F(ArmProcessTest, TheArgumentsAreThoseOfThePlan) {
  session::RunOptions options;
  options.plan = write("plan.json", kPlan);
  options.overrides = {"seed=7", "steps=3"};
  options.weights = "w.safetensors";
  options.data = "d.jsonl";
  const std::vector<std::string> expected{
      options.plan,    "--set",  "seed=7",  "--set",        "steps=3", "--weights",
      "w.safetensors", "--data", "d.jsonl", "--extra-work", "3%"};
  EXPECT_EQ(arm_arguments(options, 0.03), expected);
  EXPECT_EQ(arm_arguments(options, 0).size(), expected.size() - 2);
}

TEST_F(ArmProcessTest, APlanThatIsNotHereIsRefused) {
  session::RunOptions options;
  options.plan = "no_such_plan";
  EXPECT_THROW(arm_arguments(options, 0), ConfigError);
}

TEST_F(ArmProcessTest, ARealBuildTakesTurns) {
  ArmProcess arm(test::path_of("gradsync"), real_arguments(), nullptr);
  EXPECT_EQ(arm.build().written, nlohmann::json(session::build_context()));
  ASSERT_EQ(arm.launches().size(), 1U);
  ASSERT_EQ(arm.launches()[0].cells.size(), 2U);
  const auto failure = arm.open(0);
  ASSERT_FALSE(failure) << failure->reason;
  for (const std::size_t cell : {0U, 1U, 1U, 0U}) {
    const auto trial = arm.turn({.cell = cell, .warmup_steps = 1, .steps = 3});
    ASSERT_EQ(trial.status, results::Status::Ok) << trial.reason;
    EXPECT_EQ(trial.step_s.size(), 3U);
    EXPECT_EQ(trial.cell, arm.launches()[0].cells[cell]);
    EXPECT_TRUE(arm.is_open());
  }
  arm.close();
  EXPECT_FALSE(arm.is_open());
  EXPECT_TRUE(arm.alive());
}

TEST_F(ArmProcessTest, WhatABuildRefusesIsSaidInItsWords) {
  try {
    const ArmProcess arm(test::path_of("gradsync"), {"no_such_plan"}, nullptr);
    FAIL() << "it started";
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with(test::path_of("gradsync") + " exited with status 2: ")) << what;
    EXPECT_NE(what.find("no_such_plan"), std::string::npos) << what;
  }
}

TEST_F(ArmProcessTest, ABuildWithoutAProgramIsRefused) {
  const std::string expected =
      ": expected a build directory with the program gradsync in it, or the program";
  EXPECT_EQ(complaint_about(place_.string()), place_.string() + expected);
  EXPECT_EQ(complaint_about("/no/such/build"), "/no/such/build" + expected);
  const std::string file = write("notes.txt", "no program\n");
  EXPECT_EQ(complaint_about(file), file + expected);
}

TEST_F(ArmProcessTest, ABuildThatDoesNotStartIsQuoted) {
  EXPECT_EQ(complaint("echo first >&2; echo 'error: no library' >&2; exit 127"),
            program() +
                " exited with status 127: no library (expected a build of gradsync that "
                "takes turns)");
  EXPECT_EQ(complaint("kill -SEGV $$").find(program() + " was killed by signal 11"), 0U);
}

TEST_F(ArmProcessTest, AnotherSchemaIsRefused) {
  const std::string what = complaint(R"(echo '{"schema": "gradsync.arm/2", "event": "hello"}')");
  EXPECT_EQ(what, program() +
                      ": field 'schema': got \"gradsync.arm/2\", expected "
                      "\"gradsync.arm/1\": both builds must speak it");
  EXPECT_NE(complaint("echo '{}'").find("field 'schema': got nothing"), std::string::npos);
}

TEST_F(ArmProcessTest, AProgramThatIsNoGradsyncIsRefused) {
  const std::string what = complaint("echo 'usage: me'; read line");
  EXPECT_NE(what.find("usage: me"), std::string::npos) << what;
  EXPECT_NE(what.find("expected a build of gradsync"), std::string::npos) << what;
}

TEST_F(ArmProcessTest, ABuildThatIsSilentIsEnded) {
  const std::string what = complaint("exec sleep 1000", {.hello_s = 0.3});
  EXPECT_NE(what.find("said nothing for"), std::string::npos) << what;
}

TEST_F(ArmProcessTest, ADeathInATurnIsAnAnswer) {
  ArmProcess arm(build_of(std::string(kHello) + kOpen + "read line\nkill -9 $$\n"), {}, nullptr);
  ASSERT_FALSE(arm.open(0));
  const auto trial = arm.turn({});
  EXPECT_EQ(trial.status, results::Status::Failed);
  EXPECT_EQ(trial.reason, program() + " was killed by signal 9 (Killed)");
  EXPECT_EQ(trial.cell, arm.launches()[0].cells[0]);
  EXPECT_FALSE(arm.alive());
  EXPECT_FALSE(arm.is_open());
  const auto again = arm.open(0);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->reason, trial.reason);
}

TEST_F(ArmProcessTest, SilenceInATurnIsAnAnswer) {
  ArmProcess arm(build_of(std::string(kHello) + kOpen + "read line\nexec sleep 1000\n"), {},
                 nullptr, {.answer_s = 5});
  ASSERT_FALSE(arm.open(0));
  const auto trial = arm.turn({});
  EXPECT_EQ(trial.status, results::Status::Failed);
  EXPECT_EQ(trial.reason, program() + " said nothing for 5 s and was ended");
  EXPECT_FALSE(arm.alive());
}

TEST_F(ArmProcessTest, SignsOfLifeAreNoAnswer) {
  const std::string busy = "echo '{\"event\": \"busy\"}'\n";
  ArmProcess arm(build_of(kHello + busy + busy + kOpen + busy + "cat >/dev/null\n"), {}, nullptr);
  EXPECT_FALSE(arm.open(0));
  EXPECT_TRUE(arm.alive());
}

TEST_F(ArmProcessTest, AFailureIsHandedOn) {
  const std::string failed =
      "read line\necho '{\"event\": \"failed\", \"status\": \"unfit\", \"reason\": \"no tc\"}'\n";
  ArmProcess arm(build_of(kHello + failed + kOpen + failed + "cat >/dev/null\n"), {}, nullptr);
  const auto failure = arm.open(0);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->status, "unfit");
  EXPECT_EQ(failure->reason, "no tc");
  EXPECT_FALSE(arm.is_open());
  ASSERT_FALSE(arm.open(0));
  const auto trial = arm.turn({});
  EXPECT_EQ(trial.status, results::Status::Failed) << "a record knows no other word for it";
  EXPECT_EQ(trial.reason, "no tc");
  EXPECT_FALSE(arm.is_open());
  EXPECT_TRUE(arm.alive());
}

TEST_F(ArmProcessTest, AnotherAnswerIsRefused) {
  ArmProcess arm(build_of(std::string(kHello) + "read line\necho '{\"event\": \"closed\"}'\n"), {},
                 nullptr);
  EXPECT_THROW(arm.open(0), ConfigError);
  ArmProcess other(build_of(std::string(kHello) + kOpen +
                            "read line\necho '{\"event\": \"trial\", \"trial\": {}}'\n"),
                   {}, nullptr);
  ASSERT_FALSE(other.open(0));
  EXPECT_THROW(other.turn({}), ConfigError);
}

TEST_F(ArmProcessTest, AnInterruptEndsTheWait) {
  std::atomic<bool> interrupted{false};
  ArmProcess arm(build_of(std::string(kHello) + "cat >/dev/null\n"), {}, &interrupted);
  interrupted = true;
  EXPECT_THROW(arm.open(0), coordinate::Interrupted);
}

// Deaf to the end of its input and to SIGTERM.
TEST_F(ArmProcessTest, NoArmOutlivesItsObject) {
  const std::string deaf = "trap '' TERM\necho $$ > " + (place_ / "pid").string() + "\n" + kHello +
                           "while :; do sleep 0.05; done\n";
  pid_t pid = -1;
  {
    const ArmProcess arm(build_of(deaf), {}, nullptr, {.grace_s = 0.2});
    std::ifstream(place_ / "pid") >> pid;
    ASSERT_GT(pid, 0);
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace gradsync::arms
