#include "harness/watch/read/clock_between.h"

#include <gmock/gmock.h>

#include "harness/watch/judge/watched.h"
#include "tests/harness/watch/made_job.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using gradsync::test::kMillisecond;
using gradsync::test::MadeJob;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr std::int64_t kSecond = 1000 * kMillisecond;
constexpr std::int64_t kOffset = 5000 * kSecond;

// As another host's clock has it, which goes `drift` faster.
RankEvents elsewhere(RankEvents process, std::int64_t offset_ns, double drift = 0) {
  const auto there = [&](std::int64_t here_ns) {
    return here_ns + offset_ns + static_cast<std::int64_t>(drift * static_cast<double>(here_ns));
  };
  for (Event& event : process.events) {
    event.start_ns = there(event.start_ns);
    event.end_ns = there(event.end_ns);
    if (event.issued_ns != 0) event.issued_ns = there(event.issued_ns);
  }
  return process;
}

// One that reduces every 100 ms, and comes `late` to each; all end together after 4 ms of wire.
RankEvents meeting(int rank, std::int64_t late_ns, int times = 100) {
  RankEvents process;
  process.rank = rank;
  process.world_size = 2;
  for (int i = 0; i < times; ++i) {
    Event event;
    event.start_ns = kSecond + i * 100 * kMillisecond + late_ns;
    event.end_ns = kSecond + i * 100 * kMillisecond + 10 * kMillisecond;
    event.issued_ns = event.start_ns + 1;
    event.name = "all_reduce";
    event.bytes = 1000 + i;
    process.events.push_back(event);
  }
  return process;
}

Known<ClockBetween> between(const RankEvents& ours, const RankEvents& theirs) {
  return clock_between({&ours}, {&theirs});
}

TEST(ClockBetween, IsBoundedByWhatBothDid) {
  // Ours begins at 0 and ends at 10, theirs begins at 6 and ends at 10: theirs minus ours is
  // between 6 - 10 and 10 - 0 beside the truth.
  const auto clock = between(meeting(0, 0), elsewhere(meeting(1, 6 * kMillisecond), kOffset));
  ASSERT_TRUE(clock) << clock.why_not();
  EXPECT_EQ(clock->offset_ns, kOffset + 3 * kMillisecond);
  EXPECT_EQ(clock->error_ns, 7 * kMillisecond);
}

TEST(ClockBetween, EachComingLateOnceBoundsItBest) {
  RankEvents ours = meeting(0, 0);
  RankEvents theirs = meeting(1, 0);
  ours.events[3].start_ns += 9 * kMillisecond;
  theirs.events[70].start_ns += 9 * kMillisecond;
  const auto clock = between(ours, elsewhere(theirs, -kOffset));
  ASSERT_TRUE(clock) << clock.why_not();
  EXPECT_EQ(clock->offset_ns, -kOffset);
  EXPECT_EQ(clock->error_ns, kMillisecond);
}

TEST(ClockBetween, TheErrorCoversADrift) {
  constexpr double kDrift = 1e-4;
  const auto clock = between(meeting(0, 0, 1000), elsewhere(meeting(1, 0, 1000), 0, kDrift));
  ASSERT_TRUE(clock) << clock.why_not();
  for (const double at_s : {1.0, 50.0, 100.0}) {
    const auto truth_ns = static_cast<std::int64_t>(at_s * kDrift * kSecond);
    EXPECT_THAT(truth_ns, AllOf(Ge(clock->offset_ns - clock->error_ns),
                                Le(clock->offset_ns + clock->error_ns)))
        << at_s;
  }
}

TEST(ClockBetween, WhatOneOfThemNeverDidIsNoBound) {
  RankEvents theirs = meeting(1, 0);
  // One that ours had not: what follows in this group is not the same any more.
  theirs.events[50].bytes = 7;
  for (std::size_t i = 50; i < theirs.events.size(); ++i) theirs.events[i].end_ns += 60 * kSecond;
  const auto clock = between(meeting(0, 0), theirs);
  ASSERT_TRUE(clock) << clock.why_not();
  EXPECT_EQ(clock->offset_ns, 0);
}

TEST(ClockBetween, OtherRanksInAGroupOfThatNameAreAnotherGroup) {
  RankEvents ours = meeting(0, 0);
  RankEvents theirs = meeting(2, 0);
  ours.groups = {{"", 0, {0, 1}, "", GroupRole::Unknown, false, ""}};
  theirs.groups = {{"", 0, {2, 3}, "", GroupRole::Unknown, false, ""}};
  EXPECT_THAT(between(ours, theirs).why_not(), HasSubstr("no collective"));
}

TEST(ClockBetween, AFirstRankMayEndBeforeOthersBeginABroadcast) {
  RankEvents ours = meeting(0, 0);
  RankEvents theirs = meeting(1, 0);
  for (RankEvents* process : {&ours, &theirs}) {
    for (Event& event : process->events) event.name = "broadcast";
  }
  EXPECT_THAT(between(ours, theirs).why_not(), HasSubstr("no collective"));
}

TEST(ClockBetween, WithoutEndsItIsNotKnown) {
  RankEvents theirs = meeting(1, 0);
  for (Event& event : theirs.events) event.end_ns = event.start_ns;
  EXPECT_THAT(between(meeting(0, 0), theirs).why_not(), HasSubstr("both hosts know the end"));
}

TEST(ClockBetween, WhatContradictsItselfIsNotKnown) {
  RankEvents theirs = meeting(1, 0);
  theirs.events[5].start_ns += kSecond;
  theirs.events[5].end_ns += kSecond;
  EXPECT_THAT(between(meeting(0, 0), theirs).why_not(), HasSubstr("contradicts"));
}

// An improper job of two ranks on two hosts, where rank 1 comes `late` to every reduction.
Known<int> latest_of_two_hosts(std::int64_t late_ns, std::optional<std::int64_t> error_ns) {
  RankEvents behind = gradsync::test::improper_job(1).process();
  for (Event& event : behind.events) {
    if (event.kind != EventKind::Collective) continue;
    event.start_ns += late_ns;
    event.issued_ns += late_ns;
  }
  behind.host = 1;
  behind.clock_error_ns = error_ns;
  return summarize({gradsync::test::improper_job(0).process(), behind}).series.latest_rank;
}

TEST(LatestRank, IsToldWhereTheClocksTellIt) {
  const auto latest = latest_of_two_hosts(3 * kMillisecond, kMillisecond);
  ASSERT_TRUE(latest) << latest.why_not();
  EXPECT_EQ(*latest, 1);
  EXPECT_THAT(latest_of_two_hosts(3 * kMillisecond, 4 * kMillisecond).why_not(),
              HasSubstr("closer to each other"));
  EXPECT_THAT(latest_of_two_hosts(3 * kMillisecond, std::nullopt).why_not(),
              HasSubstr("could not be compared"));
}

}  // namespace
}  // namespace gradsync::watch
