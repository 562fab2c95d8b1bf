#include "harness/watch/judge/policies.h"

#include <gmock/gmock.h>

#include "harness/watch/judge/watched.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/judged_job.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using ::testing::IsEmpty;

// Two ranks in the same order of time.
std::vector<Policy> policies_in(const MadeJob& job) {
  return summarize({job.process()}).typical->policies;
}

MadeJob hybrid(const std::vector<bool>& replicas) {
  MadeJob job(0, 4);
  job.wrapper = "fully_shard";
  job.hybrid_groups().holding({1000, 1000, 3000});
  return four_steps(
      [&](MadeJob& j) {
        for (const bool each : replicas) j.forward().hybrid(each);
        j.optimizer();
      },
      job);
}

// A unit's reduce-scatter takes 15 ms and its all-reduce 30 ms, and each is issued 2 ms before the
// next: they overlap, and the last alone is waited for.
TEST(Policies, OfAJobThatReducesAllInEachMicroBatch) {
  const auto policies = policies_in(hybrid({true, true, true, true}));
  ASSERT_EQ(policies.size(), 3U);
  EXPECT_EQ(policies[0].when, When::EachMicroBatch);
  EXPECT_EQ(policies[0].held_bytes, Known<std::int64_t>(1000));
  EXPECT_EQ(policies[0].saved_s, Known<double>(0.0));
  EXPECT_EQ(policies[1].when, When::ReplicasAtTheEnd);
  EXPECT_EQ(policies[1].held_bytes, Known<std::int64_t>(1000));
  EXPECT_NEAR(*policies[1].saved_s, 3 * 0.015, 1e-9);  // its wait falls from 30 ms to 15
  EXPECT_EQ(policies[2].when, When::AllAtTheEnd);
  EXPECT_EQ(policies[2].held_bytes, Known<std::int64_t>(3000));
  EXPECT_NEAR(*policies[2].saved_s, 3 * 0.030, 1e-9);
}

// The same of one of four ranks, whose all-reduces end so much earlier.
RankEvents rank_of_four(int rank, int earlier_ms) {
  RankEvents process = hybrid({true, true, true, true}).process();
  process.rank = rank;
  process.groups[0].ranks = {rank / 2 * 2, rank / 2 * 2 + 1};
  process.groups[1].ranks = {rank % 2, rank % 2 + 2};
  for (Event& event : process.events) {
    if (event.name == "all_reduce") event.end_ns -= earlier_ms * gradsync::test::kMillisecond;
  }
  return process;
}

// Ranks 0 and 2 replicate each other, of which 2 comes 5 ms later than 0, and 1 and 3 beside them.
TEST(Policies, ReplicasWaitForTheLatestOfThemselvesAndOtherRanksForThem) {
  const Watched watched =
      summarize({rank_of_four(0, 0), rank_of_four(1, 3), rank_of_four(2, 5), rank_of_four(3, 0)});
  EXPECT_NEAR(*watched.typical->policies.at(1).saved_s, 3 * 0.012, 1e-9);
}

TEST(Policies, OfAJobThatDefersSaveNothingMore) {
  const auto replicas = policies_in(hybrid({false, false, false, true}));
  test::expect_phrases("watch/judge", {replicas.at(0).saved_s.why_not()});
  EXPECT_EQ(replicas.at(1).saved_s, Known<double>(0.0));
  EXPECT_GT(*replicas.at(2).saved_s, 0.0);
}

TEST(Policies, AreNoneWhereThereIsNothingToDefer) {
  EXPECT_THAT(policies_in(hybrid({true})), IsEmpty());
  EXPECT_THAT(policies_in(gradsync::test::improper_job(0)), IsEmpty());
}

TEST(Policies, OfShardsThatNobodyKnowsAreNotToldInBytes) {
  const auto policies = policies_in(gradsync::test::fsdp_job(0));
  ASSERT_EQ(policies.size(), 2U);
  test::expect_phrases("watch/judge", {policies[1].held_bytes.why_not()});
  EXPECT_THAT(policy_texts(policies), IsEmpty());
}

TEST(Policies, InWords) {
  test::expect_phrases("watch/judge",
                       policy_texts({{When::EachMicroBatch, 1000, 0, 0.0},
                                     {When::ReplicasAtTheEnd, 1000, 0, 0.25},
                                     {When::AllAtTheEnd, 3048, 0, Unknown{"not known"}}}));
}

TEST(Policies, OfFsdp1ThatLeavesParametersGathered) {
  MadeJob job = hybrid({true, true});
  job.holding({1000, -1, 3000, 4000});
  const auto policies = policies_in(job);
  ASSERT_EQ(policies.size(), 3U);
  EXPECT_EQ(policies[0].parameter_bytes, 0);
  test::expect_phrases("watch/judge", {policies[1].held_bytes.why_not()});
  EXPECT_EQ(policies[2].held_bytes, Known<std::int64_t>(7000));
  EXPECT_EQ(policies[2].parameter_bytes, 4000);
  test::expect_phrases("watch/judge", policy_texts({{When::EachMicroBatch, 1000, 0, 0.0},
                                                    {When::AllAtTheEnd, 7000, 4000, 0.0}}));
}

}  // namespace
}  // namespace gradsync::watch
