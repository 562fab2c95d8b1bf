// Covers: examined.cpp, watched_steps.cpp.
#include "harness/watch/judge/series.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "harness/watch/judge/watched.h"
#include "harness/watch/judge/watched_steps.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using gradsync::test::kBucketBytes;
using gradsync::test::kMillisecond;
using gradsync::test::kWaitMs;
using gradsync::test::MadeJob;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr double kWaitS = kWaitMs * 1e-3;

std::vector<RankEvents> two(MadeJob (*job)(int)) {
  return {job(0).process(), job(1).process()};
}

// The rank, `milliseconds` behind the others in all that it does.
RankEvents behind(RankEvents process, std::int64_t milliseconds) {
  for (Event& event : process.events) {
    event.start_ns += milliseconds * kMillisecond;
    if (event.kind != EventKind::Collective) event.end_ns += milliseconds * kMillisecond;
  }
  return process;
}

RankEvents in_world_of(int world_size, RankEvents process) {
  process.world_size = world_size;
  return process;
}

TEST(Series, OfAJobThatSynchronizesTooOften) {
  const Watched watched = summarize(two(gradsync::test::improper_job));
  EXPECT_EQ(*watched.series.steps, 6);
  EXPECT_THAT(*watched.series.exposed_s, DoubleNear(4 * kWaitS, 1e-9));
  EXPECT_THAT(*watched.series.synchronization_share,
              DoubleNear(4 * kWaitS / *watched.typical->step_s, 1e-9));
  EXPECT_EQ(*watched.series.excess_bytes, 6 * kBucketBytes);
}

TEST(Series, AProperJobHasNoExcessAndThatIsKnown) {
  const Series series = summarize(two(gradsync::test::proper_job)).series;
  EXPECT_EQ(*series.excess_bytes, 0);
  EXPECT_THAT(*series.exposed_s, DoubleNear(kWaitS, 1e-9));
}

TEST(Series, BroadcastsOfBuffersAreExposed) {
  const Watched watched = summarize(two(gradsync::test::batch_norm_job));
  EXPECT_THAT(*watched.series.exposed_s, DoubleNear(4 * kWaitS + 4 * 0.002, 1e-9));
  EXPECT_GE(*watched.series.exposed_s, *watched.typical->excess_s);
}

TEST(Series, TheLatestRankIsTheOneForWhichTheOthersWait) {
  for (const int late : {0, 1}) {
    const Series series = summarize({behind(gradsync::test::improper_job(0).process(), 3 * !late),
                                     behind(gradsync::test::improper_job(1).process(), 3 * late)})
                              .series;
    EXPECT_EQ(*series.latest_rank, late);
    // The late one waits for the wire alone.
    EXPECT_THAT(*series.exposed_s, DoubleNear(4 * (kWaitS - 0.003), 1e-9));
  }
}

TEST(Series, WhereARankWasNotSeenNobodyIsTheLatest) {
  const Series series =
      summarize({in_world_of(3, gradsync::test::improper_job(0).process()),
                 in_world_of(3, behind(gradsync::test::improper_job(1).process(), 3))})
          .series;
  test::expect_phrases("watch/judge", {series.latest_rank.why_not()});
  EXPECT_TRUE(static_cast<bool>(series.exposed_s));
}

TEST(Series, WhenCollectivesEndedMustBeKnown) {
  const Series series = summarize(gradsync::test::job_without_times()).series;
  test::expect_phrases("watch/judge",
                       {series.exposed_s.why_not(), series.latest_rank.why_not(),
                        series.synchronization_share.why_not(), series.excess_bytes.why_not()});
  EXPECT_THAT(known_values(series), ElementsAre(Pair("steps", 4)));
}

TEST(Series, WhatIsNotRecognisedIsNotAccused) {
  const Series series = summarize(two(gradsync::test::cleared_job)).series;
  test::expect_phrases("watch/judge", {series.excess_bytes.why_not()});
  EXPECT_FALSE(static_cast<bool>(series.exposed_s));
}

TEST(Series, WhatNeverSynchronizesWaitsForNothing) {
  const Series series = summarize(two(gradsync::test::never_job)).series;
  EXPECT_EQ(*series.exposed_s, 0);
  test::expect_phrases("watch/judge", {series.excess_bytes.why_not()});
}

TEST(Series, OfOneProcessAndOfNothing) {
  const MadeJob alone = MadeJob(-1, 0).times(6, [](MadeJob& job) { job.backward().optimizer(); });
  const Series series = summarize({alone.process()}).series;
  EXPECT_THAT(known_values(series), ElementsAre(Pair("steps", 6)));
  EXPECT_THAT(known_values(summarize({}).series), IsEmpty());
  test::expect_phrases("watch/judge",
                       {series.exposed_s.why_not(), summarize({}).series.steps.why_not()});
}

TEST(WatchedSteps, AreThoseOfTheLowestRank) {
  const auto steps = watched_steps(two(gradsync::test::improper_job));
  ASSERT_THAT(steps, SizeIs(6));
  EXPECT_EQ(*steps[0].series.steps, 1);
  EXPECT_EQ(*steps[5].series.steps, 6);
  EXPECT_EQ(steps[5].micro_batches, 4);
  EXPECT_EQ(steps[5].synchronized, 4);
  EXPECT_EQ(steps[5].collectives.at("all_reduce"), (OpSum{8, 8 * kBucketBytes}));
  EXPECT_THAT(*steps[5].series.exposed_s, DoubleNear(4 * kWaitS, 1e-9));
  EXPECT_EQ(steps[5].pid, 100);
}

TEST(WatchedSteps, ForGoodAreThoseThatAllRanksHaveLeftBehind) {
  std::vector<RankEvents> processes = two(gradsync::test::improper_job);
  EXPECT_THAT(watched_steps(steps_for_good(processes)), SizeIs(5));
  const auto first_step =
      std::find_if(processes[1].events.begin(), processes[1].events.end(),
                   [](const Event& event) { return event.kind == EventKind::OptimizerStep; });
  processes[1].events.erase(first_step + 1, processes[1].events.end());
  EXPECT_THAT(watched_steps(steps_for_good(processes)), IsEmpty());
  processes[1] = MadeJob(1).wrap().process();
  EXPECT_THAT(watched_steps(steps_for_good(processes)), IsEmpty());
  EXPECT_THAT(steps_for_good({}), IsEmpty());
}

}  // namespace
}  // namespace gradsync::watch
