#include "harness/text/progress.h"

#include <gmock/gmock.h>

#include <sstream>

#include "harness/text/text_width.h"

namespace gradsync::text {
namespace {

using results::Status;
using ::testing::HasSubstr;

std::vector<PlannedTrial> plan_of(int trials) {
  std::vector<PlannedTrial> plan;
  for (int i = 0; i < trials; ++i) {
    const char* strategy = i % 2 == 0 ? "no_sync" : "no_sync_improper";
    plan.push_back({"2x1", strategy, strategy, i / 8, 4, 7});
  }
  return plan;
}

TEST(GoldenProgress, AtEightyAndAHundredAndTwentyColumns) {
  const ProgressState state = {10, 5, 0.912, 220.0};
  EXPECT_EQ(progress_line(plan_of(32), state, 120),
            "[11/32] 2x1 | no_sync            | launch 2/4 | step 5/7 | 0.912 s/step | eta 3m40s");
  EXPECT_EQ(progress_line(plan_of(32), state, 80),
            "[11/32] 2x1 | no_sync            | launch 2/4 | step 5/7 | 0.912 s/step | eta 3…");
  EXPECT_EQ(display_width(progress_line(plan_of(32), state, 80)), 80U);
}

TEST(GoldenProgress, UnknownTimesAreLeftOutAndShortOnesAreInMilliseconds) {
  EXPECT_EQ(progress_line(plan_of(3), {0, 0, {}, {}}, 80),
            "[1/3] 2x1 | no_sync            | launch 1/4 | step 0/7");
  EXPECT_EQ(progress_line(plan_of(3), {1, 2, 0.00512, {}}, 80),
            "[2/3] 2x1 | no_sync improperly | launch 1/4 | step 2/7 | 5.12 ms/step");
}

TEST(GoldenProgress, ATerminalsLineIsRewrittenInPlaceAndCleared) {
  std::ostringstream out;
  const FakeClock clock_at_start;
  FakeClock clock = clock_at_start;
  {
    Progress progress(out, clock, {.terminal = true, .width = 100}, plan_of(2));
    progress.begin(0);
    clock.advance_ns(2'000'000'000);
    progress.update(2);
    progress.update(2);
    progress.finish(Status::Ok, "", 1.0);
  }
  EXPECT_EQ(out.str(),
            "\r\x1b[K[1/2] 2x1 | no_sync            | launch 1/4 | step 0/7"
            "\r\x1b[K[1/2] 2x1 | no_sync            | launch 1/4 | step 2/7 | 1.000 s/step"
            "\r\x1b[K");
}

TEST(GoldenProgress, NothingReachesTheTerminalsLastColumn) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, {.terminal = true, .width = 40}, plan_of(2));
  progress.begin(0);
  EXPECT_EQ(out.str(), "\r\x1b[K[1/2] 2x1 | no_sync            | launc…");
}

TEST(GoldenProgress, ALogGetsOneLineForEachTrial) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, {}, plan_of(2));
  progress.begin(0);
  progress.update(3);
  progress.finish(Status::Ok, "", 0.912);
  progress.begin(1);
  progress.finish(Status::Timeout, "after 60 s, rank 1/2 node1 in all_reduce #7", {});
  EXPECT_EQ(out.str(),
            "[1/2] 2x1 | no_sync            | launch 1/4 | ok | 0.912 s/step\n"
            "[2/2] 2x1 | no_sync improperly | launch 1/4 | TIMEOUT after 60 s, rank 1/2 node1 in "
            "all_reduce #7\n");
}

TEST(GoldenProgress, QuietSaysOnlyWhatWentWrong) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, {.terminal = true, .quiet = true}, plan_of(3));
  progress.begin(0);
  progress.update(1);
  progress.finish(Status::Ok, "", 0.5);
  progress.begin(1);
  progress.finish(Status::Failed, "killed by signal 9", {});
  EXPECT_EQ(
      out.str(),
      "[2/3] 2x1 | no_sync improperly | launch 1/4 | FAILED killed by signal 9 (continuing)\n");
}

TEST(GoldenProgress, ColourOnlyWhereAskedForAndTheWordStays) {
  for (const bool colour : {false, true}) {
    std::ostringstream out;
    FakeClock clock;
    Progress progress(out, clock, {.colour = colour}, plan_of(1));
    progress.begin(0);
    progress.finish(Status::Skipped, "no namespaces", {});
    EXPECT_THAT(out.str(), HasSubstr(colour ? "\x1b[33mskipped\x1b[0m no namespaces"
                                            : "| skipped no namespaces"));
  }
}

TEST(GoldenProgress, EtaComesFromFinishedTrialsOfTheSameCell) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, {.terminal = true, .width = 120}, plan_of(3));
  progress.begin(0);
  clock.advance_ns(10'000'000'000);
  progress.finish(Status::Ok, "", 1.0);
  progress.begin(1);
  clock.advance_ns(30'000'000'000);
  progress.finish(Status::Ok, "", 1.0);
  out.str("");
  progress.begin(2);  // as long as the first, whatever the second took
  EXPECT_THAT(out.str(), HasSubstr("| eta 10s"));
}

}  // namespace
}  // namespace gradsync::text
