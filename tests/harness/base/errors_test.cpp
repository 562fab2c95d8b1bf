#include "harness/base/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradsync {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ConfigError, NamesFileFieldGotAndExpected) {
  const ConfigError error("plan.json", "cells.topology", "\"9x9\"", "a topology's name");
  EXPECT_STREQ(error.what(),
               "plan.json: field 'cells.topology': got \"9x9\", expected a topology's name");
}

TEST(ConfigError, TakesASentenceAsItIs) {
  EXPECT_STREQ(ConfigError("smoke.json: is empty").what(), "smoke.json: is empty");
}

TEST(EnvironmentError, SaysWhatIsWrongAndTheRemedy) {
  EXPECT_STREQ(EnvironmentError("no network namespaces", "run as root").what(),
               "no network namespaces (run as root)");
}

TEST(EnvironmentError, SaysNothingInBracketsWithoutARemedy) {
  EXPECT_STREQ(EnvironmentError("the job was lost", "").what(), "the job was lost");
}

TEST(CommError, TellsATimeoutFromALostPeer) {
  EXPECT_TRUE(CommError("all_reduce #7", /*timed_out=*/true).timed_out());
  EXPECT_FALSE(CommError("connection reset").timed_out());
}

TEST(Check, PassesWithoutEffect) {
  int evaluations = 0;
  const auto count = [&evaluations] { return ++evaluations; };
  EXPECT_NO_THROW(GRADSYNC_CHECK(count(), ==, 1));
  EXPECT_EQ(evaluations, 1) << "an operand was evaluated more than once";
}

std::string message_of_failing_check() {
  const int buckets = 13;
  try {
    GRADSYNC_CHECK(buckets, ==, 14);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Check, FailurePrintsExpressionBothValuesAndPlace) {
  EXPECT_THAT(message_of_failing_check(),
              AllOf(StartsWith("internal check failed: buckets == 14 with 13 and 14 ("),
                    HasSubstr("errors_test.cpp:"), HasSubstr("this is a bug")));
}

TEST(Check, PrintsTextAndTruthValues) {
  EXPECT_EQ(to_text(true), "true");
  EXPECT_EQ(to_text(std::string("no_sync")), "no_sync");
  EXPECT_EQ(to_text("baseline"), "baseline");
  EXPECT_EQ(to_text(56), "56");
}

// Scripts and CI read these; the numbers are part of the command line's contract.
TEST(ExitStatus, HasTheDocumentedNumbers) {
  EXPECT_EQ(static_cast<int>(ExitStatus::Ok), 0);
  EXPECT_EQ(static_cast<int>(ExitStatus::Regression), 1);
  EXPECT_EQ(static_cast<int>(ExitStatus::Config), 2);
  EXPECT_EQ(static_cast<int>(ExitStatus::Undecided), 3);
  EXPECT_EQ(static_cast<int>(ExitStatus::Unfit), 4);
  EXPECT_EQ(static_cast<int>(ExitStatus::Failed), 5);
  EXPECT_EQ(static_cast<int>(ExitStatus::Internal), 70);
  EXPECT_EQ(static_cast<int>(ExitStatus::Interrupted), 130);
}

}  // namespace
}  // namespace gradsync
