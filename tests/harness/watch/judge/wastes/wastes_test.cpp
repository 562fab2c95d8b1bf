// Covers: last_reductions.cpp, unread.cpp, waste_words.cpp.
#include "harness/watch/judge/wastes/wastes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "harness/watch/judge/wastes/savings.h"
#include "harness/watch/judge/wastes/waste_words.h"
#include "harness/watch/judge/watched.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/judge/wastes/wasting_job.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Paced = MadeJob::Paced;

constexpr std::int64_t kMiB = kMebibyte;
constexpr const char* kHugeCap =
    "find_unused_parameters=false bucket_bytes_cap=1048576000 largest_parameter_bytes=1048576";

double step_s(const MadeJob& job) {
  const RankEvents process = job.process();
  const Steps steps = cut_into_steps(process.events);
  return count_steps(steps).back().duration_s();
}

// Five steps of a model of 16 MiB under DDP, each of one micro-batch that reduces so.
MadeJob ddp_job(std::int64_t computes, const std::vector<Paced>& reductions,
                const std::string& options = kHugeCap) {
  return MadeJob().wrap(1, options, 16 * kMiB).times(5, [&](MadeJob& job) {
    job.forward().reducing_paced(32, computes, reductions).optimizer().zero_grad();
  });
}

// Five steps without a wrapper.
MadeJob by_hand_job(std::int64_t computes, const std::vector<Paced>& reductions, int gradients) {
  return MadeJob().times(5, [&](MadeJob& job) {
    job.reduced_by_hand(gradients, computes, reductions).optimizer().zero_grad();
  });
}

MadeJob one_bucket(std::int64_t computes, std::int64_t wire) {
  return ddp_job(computes, {{computes, wire, 16 * kMiB}});
}

// What `one_bucket` could be: eight buckets, each there when its share of the backward has passed.
MadeJob eight_buckets(std::int64_t computes, std::int64_t wire) {
  std::vector<Paced> reductions;
  for (int i = 1; i <= 8; ++i) reductions.push_back({computes * i / 8, wire / 8, 2 * kMiB});
  return ddp_job(computes, reductions, "bucket_bytes_cap=2097152 largest_parameter_bytes=1048576");
}

// `count` tensors, half of 4 KiB and half of 512 KiB. The wire takes `each` ms for a tensor, and
// 2 ms more for 512 KiB.
std::vector<Paced> tensors(int count, std::int64_t each) {
  std::vector<Paced> reductions;
  for (int i = 0; i < count / 2; ++i) {
    reductions.push_back({0, each, 4096});
    reductions.push_back({0, each + 2, kMiB / 2});
  }
  return reductions;
}

void expect_said(const Waste& waste) {
  std::vector<std::string> said{waste.sentence};
  if (!waste.why.empty()) said.push_back(waste.why);
  if (waste.change) said.push_back(change_text(*waste.change));
  test::expect_phrases("watch/judge", said);
}

// The generator's backward runs through the discriminator, whose gradients are cleared before its
// own: `cleared` says of which models zero_grad() is.
std::vector<Waste> wastes_of_gan(const std::string& cleared) {
  MadeJob job = MadeJob().wrap(1, "", 3000).wrap(2, "", 5000).times(4, [](MadeJob& j) {
    j.forward(1).forward(2).reducing(2, 4000).optimizer("of=1").zero_grad();
    j.forward(2).reducing(1, 5000).optimizer("of=2");
  });
  for (Event& event : job.events()) {
    if (event.kind == EventKind::ZeroGrad) event.detail = cleared;
  }
  std::vector<Waste> wastes = summarize({job.process()}).wastes;
  std::erase_if(wastes, [](const Waste& each) { return each.kind != WasteKind::UnreadGradients; });
  return wastes;
}

TEST(Wastes, GradientsThatAreReducedAndClearedUnreadAreTold) {
  const std::vector<Waste> wastes = wastes_of_gan("of=1 of=2");
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].change->line, 21);
  expect_said(wastes[0]);
  // The discriminator's own step adds them up and reads them.
  EXPECT_THAT(wastes_of_gan("of=1"), IsEmpty());
  EXPECT_THAT(wastes_of_gan(""), IsEmpty());  // nobody says of which models they are
}

TEST(Wastes, OneBucketCostsWhatEightWouldSave) {
  for (const std::int64_t wire : {16, 40, 80, 160, 400}) {
    const MadeJob now = one_bucket(80, wire);
    const std::vector<Waste> wastes = wastes_on({now});
    ASSERT_EQ(wastes.size(), 1U) << wire;
    EXPECT_EQ(wastes[0].kind, WasteKind::OneBucket);
    const double saved_s = step_s(now) - step_s(eight_buckets(80, wire));
    EXPECT_NEAR(*wastes[0].saved_s, saved_s, 0.001 * saved_s) << wire;
  }
}

TEST(Wastes, OneBucketIsToldWithItsOptionAndABetterOne) {
  const std::vector<Waste> wastes = wastes_on({one_bucket(80, 40)});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].reductions, 1);
  EXPECT_EQ(wastes[0].change->line, 5);
  expect_said(wastes[0]);
}

TEST(Wastes, BucketsThatOverlapAreNone) {
  for (const std::int64_t wire : {16, 40, 160, 400}) {
    EXPECT_THAT(kinds_on(eight_buckets(80, wire)), IsEmpty()) << wire;
  }
}

TEST(Wastes, OneBucketIsEnoughForASmallModelOrOneLargeTensor) {
  const auto job = [](std::int64_t bytes, std::int64_t largest) {
    const std::string options =
        fmt::format("bucket_bytes_cap=1048576000 largest_parameter_bytes={}", largest);
    return MadeJob().wrap(1, options, bytes).times(5, [=](MadeJob& made) {
      made.forward().reducing_paced(9, 80, {{80, 40, bytes}}).optimizer();
    });
  };
  EXPECT_THAT(kinds_on(job(4 * kMiB, 1000)), ElementsAre(WasteKind::OneBucket));
  EXPECT_THAT(kinds_on(job(4 * kMiB - 4, 1000)), IsEmpty());
  EXPECT_THAT(kinds_on(job(16 * kMiB, 4 * kMiB)), ElementsAre(WasteKind::OneBucket));
  EXPECT_THAT(kinds_on(job(16 * kMiB, 5 * kMiB)), IsEmpty());
}

TEST(Wastes, ALargestTensorIsNotOverlapped) {
  const MadeJob job = ddp_job(80, {{80, 40, 16 * kMiB}},
                              "bucket_bytes_cap=1048576000 largest_parameter_bytes=4194304");
  const std::vector<Waste> wastes = wastes_on({job});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_NEAR(*wastes[0].saved_s, 0.75 * 0.040, 1e-9);
}

TEST(Wastes, OlderRecordingsHaveNoSizesAndNoWastes) {
  EXPECT_THAT(kinds_on(ddp_job(80, {{80, 40, 16 * kMiB}}, "find_unused_parameters=false")),
              IsEmpty());
}

TEST(Wastes, LessThanThreePercentOfAStepIsNotTold) {
  EXPECT_THAT(kinds_on(one_bucket(80, 4)), ElementsAre(WasteKind::OneBucket));
  EXPECT_THAT(kinds_on(one_bucket(80, 3)), IsEmpty());
}

TEST(Wastes, TheOnlyStepIsNone) {
  MadeJob job;
  job.wrap(1, kHugeCap, 16 * kMiB).forward().reducing_paced(32, 80, {{80, 40, 16 * kMiB}});
  EXPECT_THAT(kinds_on(job.optimizer()), IsEmpty());
}

TEST(Wastes, OfAStepsMicroBatchesTheLastSynchronizationCounts) {
  const MadeJob job = MadeJob().wrap(1, kHugeCap, 16 * kMiB).times(5, [](MadeJob& made) {
    made.times(3, unsynced).forward().reducing_paced(32, 80, {{80, 40, 16 * kMiB}}).optimizer();
  });
  const std::vector<Waste> wastes = wastes_on({job});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_NEAR(*wastes[0].saved_s, 0.875 * 0.040, 1e-9);
}

TEST(Wastes, TheBucketIsKnownBesideWhatNormalizationsReduce) {
  const MadeJob job = ddp_job(80, {{20, 1, 256}, {50, 1, 256}, {80, 40, 16 * kMiB}});
  const std::vector<Waste> wastes = wastes_on({job});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].kind, WasteKind::OneBucket);
  EXPECT_EQ(wastes[0].reductions, 1);
}

TEST(Wastes, ALateRankIsNotTheWire) {
  const MadeJob late = one_bucket(80, 40);
  const MadeJob early = ddp_job(50, {{50, 70, 16 * kMiB}});  // it waits for the other one
  for (const auto& ranks : {std::vector{late, early}, std::vector{early, late}}) {
    const std::vector<Waste> wastes = wastes_on(ranks);
    ASSERT_EQ(wastes.size(), 1U);
    EXPECT_NEAR(*wastes[0].saved_s, 0.875 * 0.040, 1e-9);
  }
}

TEST(Wastes, RanksMustReduceAlike) {
  EXPECT_THAT(wastes_on({one_bucket(80, 40), eight_buckets(80, 40)}), IsEmpty());
}

TEST(Wastes, BucketsThatAllWaitForOneGradientAreTold) {
  std::vector<Paced> reductions;
  for (int i = 0; i < 4; ++i) reductions.push_back({80, 10, 4 * kMiB});
  const auto wastes = wastes_on(
      {ddp_job(80, reductions, "find_unused_parameters=true largest_parameter_bytes=1048576")});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].kind, WasteKind::NoOverlap);
  EXPECT_EQ(wastes[0].reductions, 4);
  expect_said(wastes[0]);
  EXPECT_NEAR(*wastes[0].saved_s, 0.875 * 0.040, 1e-9);
  reductions.front().begin = 78;  // one is there before
  EXPECT_THAT(kinds_on(ddp_job(80, reductions)), IsEmpty());
}

TEST(Wastes, ReductionsByHandBehindBackwardAreTold) {
  const MadeJob job = by_hand_job(80, {{0, 40, 16 * kMiB}}, 32);
  const std::vector<Waste> wastes = wastes_on({job});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].kind, WasteKind::NoOverlap);
  EXPECT_EQ(wastes[0].change->line, 61);
  expect_said(wastes[0]);
  EXPECT_NEAR(*wastes[0].saved_s, 0.875 * 0.040, 1e-9);
}

TEST(Wastes, ALossIsNoReductionOfGradients) {
  const MadeJob job = by_hand_job(80, {{0, 1, 4}, {0, 40, 16 * kMiB}, {0, 1, 8}}, 32);
  const std::vector<Waste> wastes = wastes_on({job});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].reductions, 1);
}

TEST(Wastes, SmallReductionsCostWhatFewerWouldSave) {
  for (const std::int64_t each : {1, 3, 10}) {
    const MadeJob now = by_hand_job(80, tensors(64, each), 64);
    const std::int64_t bytes = 32 * (4096 + kMiB / 2);
    // Nine buckets of equal size: each costs as much by itself, the bytes cost what they did.
    const std::int64_t wire = (9 * each + 32 * 2) / 9;
    const MadeJob fewer = by_hand_job(80, std::vector<Paced>(9, {0, wire, bytes / 9}), 64);
    const std::vector<Waste> wastes = wastes_on({now});
    ASSERT_EQ(wastes.size(), 2U) << each;
    EXPECT_EQ(wastes[0].kind, WasteKind::SmallReductions);
    const double saved_s = step_s(now) - step_s(fewer);
    EXPECT_NEAR(*wastes[0].saved_s, saved_s, 0.05 * saved_s) << each;
    EXPECT_EQ(wastes[1].kind, WasteKind::NoOverlap);
    const double rest_s = 0.064 + 9e-3 * static_cast<double>(each);
    const double share = 1 - 2.0 * kMiB / static_cast<double>(bytes);
    EXPECT_NEAR(*wastes[1].saved_s, share * std::min(0.080, rest_s), 0.003) << each;
  }
}

TEST(Wastes, BetweenReductionsByHandTheHostIsPaidAsWell) {
  const MadeJob job = MadeJob().times(5, [](MadeJob& made) {
    made.reduced_by_hand(64, 80, {});
    for (int i = 0; i < 64; ++i) made.collective("all_reduce", i % 2 == 0 ? 4096 : 8192);
    made.optimizer();
  });
  const std::vector<Waste> wastes = wastes_on({job});  // 2 ms each, and 1 ms between any two
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_NEAR(*wastes[0].saved_s, 63 * (64 * 0.003 - 0.001) / 64, 1e-6);
}

TEST(Wastes, SmallReductionsAreToldByTensorAndSize) {
  const std::vector<Waste> wastes = wastes_on({by_hand_job(80, tensors(64, 3), 64)});
  ASSERT_FALSE(wastes.empty());
  EXPECT_EQ(wastes[0].reductions, 64);
  EXPECT_EQ(wastes[0].change->line, 61);
  expect_said(wastes[0]);
}

TEST(Wastes, ByHandManyCollectivesAreOfGradientsWhereThereIsOneForEach) {
  EXPECT_THAT(kinds_on(by_hand_job(80, tensors(64, 3), 64)),
              ElementsAre(WasteKind::SmallReductions, WasteKind::NoOverlap));
  EXPECT_THAT(kinds_on(by_hand_job(80, tensors(64, 3), 63)), ElementsAre(WasteKind::NoOverlap));
  EXPECT_THAT(kinds_on(by_hand_job(80, tensors(14, 3), 14)), IsEmpty());
}

TEST(Wastes, TinyBucketsOfDdpCostNoMoreThanIsLeftBehindBackward) {
  std::vector<Paced> reductions = tensors(64, 3);
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    reductions[i].begin = static_cast<std::int64_t>(i + 1) * 5;
  }
  // 4 ms each on average, one every 5 ms: the last one alone is left.
  const std::string options = "bucket_bytes_cap=10485 largest_parameter_bytes=524288";
  const MadeJob kept_up = ddp_job(320, reductions, options);
  EXPECT_THAT(kinds_on(kept_up), IsEmpty());
  for (Paced& each : reductions) each.wire += 4;  // 8 ms each on average
  const std::vector<Waste> wastes = wastes_on({ddp_job(320, reductions, options)});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].kind, WasteKind::SmallReductions);
  expect_said(wastes[0]);
  EXPECT_NEAR(*wastes[0].saved_s, 0.197, 0.005);  // of 55 x 7 ms, what comes behind backward
}

// So many models run forward one after the other, and one backward reduces each by itself.
MadeJob wrapped_one_by_one(int models) {
  MadeJob job;
  for (int model = 1; model <= models; ++model) job.wrap(model, "", 4096);
  return job.times(5, [&](MadeJob& made) {
    std::vector<Paced> reductions;
    for (int model = 1; model <= models; ++model) {
      made.forward(model);
      reductions.push_back({80, 3, model % 2 == 0 ? 4096 : 8192});
    }
    made.reducing_paced(4 * models, 80, reductions).optimizer();
  });
}

TEST(Wastes, ManyModelsThatAreWrappedOneByOneAreToldToBeOne) {
  const std::vector<Waste> wastes = wastes_on({wrapped_one_by_one(13)});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].kind, WasteKind::SmallReductions);
  EXPECT_EQ(wastes[0].reductions, 13);
  EXPECT_EQ(wastes[0].change->line, 5) << "where the first is wrapped";
  expect_said(wastes[0]);
  EXPECT_THAT(kinds_on(wrapped_one_by_one(3)), IsEmpty()) << "a generator and its critics";
}

TEST(Wastes, SecondsAreNotKnownWhereEndsAreNot) {
  MadeJob job;
  job.ends_are_known = false;
  job.wrap(1, kHugeCap, 16 * kMiB).times(5, [](MadeJob& made) {
    made.forward().reducing_paced(32, 80, {{80, 0, 16 * kMiB}}).optimizer();
  });
  const std::vector<Waste> wastes = wastes_on({job});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_FALSE(wastes[0].saved_s);
  test::expect_phrases("watch/judge", {saving_text(wastes[0], 0.1)});
}

TEST(Wastes, WhatEachCostsIsNotKnownOfOneSize) {
  const auto wastes = wastes_on({by_hand_job(80, std::vector<Paced>(64, {0, 3, 4096}), 64)});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].kind, WasteKind::SmallReductions);
  test::expect_phrases("watch/judge", {wastes[0].saved_s.why_not()});
}

TEST(Wastes, OfOneSizeTheyAreToldWhereTheyCouldCostEnough) {
  const auto equal = [](int count) { return std::vector<Paced>(count, {0, 1, 4096}); };
  EXPECT_THAT(kinds_on(by_hand_job(300, equal(16), 16)), ElementsAre(WasteKind::SmallReductions));
  EXPECT_THAT(kinds_on(by_hand_job(600, equal(16), 16)), IsEmpty());
}

TEST(Wastes, ShardedModelsHaveNone) {
  MadeJob job;
  job.wrapper = "fully_shard";
  job.reduction = "reduce_scatter";
  job.wrap(1, kHugeCap, 16 * kMiB).times(5, [](MadeJob& made) {
    made.forward().reducing_paced(32, 80, {{80, 40, 16 * kMiB}}).optimizer();
  });
  EXPECT_THAT(kinds_on(job), IsEmpty());
}

TEST(Wastes, WhoExchangesActivationsByHandIsNotJudged) {
  const MadeJob job = MadeJob().times(5, [](MadeJob& made) {
    made.begin(EventKind::Backward).collective("send", 1000).end();
    made.collective("all_reduce", 16 * kMiB).optimizer();
  });
  EXPECT_THAT(kinds_on(job), IsEmpty());
}

TEST(Wastes, WhatIsReducedByHandWhileBackwardRunsOverlaps) {
  const auto job = [](bool begins_in_backward) {
    return MadeJob().times(5, [=](MadeJob& made) {
      made.begin(EventKind::Backward);
      if (begins_in_backward) made.collective("all_reduce", 4 * kMiB);
      made.times(20, [](MadeJob& each) { each.collective("all_gather", 4); }).end();
      made.times(4, [](MadeJob& each) { each.collective("all_reduce", 4 * kMiB); }).optimizer();
    });
  };
  EXPECT_THAT(kinds_on(job(false)), ElementsAre(WasteKind::NoOverlap));
  EXPECT_THAT(kinds_on(job(true)), IsEmpty());
}

TEST(Wastes, WhatIsAveragedBehindTheOptimizerIsNoGradient) {
  const MadeJob job = MadeJob().times(
      5, [](MadeJob& made) { made.backward().optimizer().collective("all_reduce", 16 * kMiB); });
  EXPECT_THAT(kinds_on(job), IsEmpty());
}

TEST(Wastes, ASavingIsToldWithItsShareOfAStep) {
  Waste waste;
  waste.saved_s = 0.12;
  const std::string hidden = saving_text(waste, 1.0);
  EXPECT_THAT(hidden, HasSubstr(" 0.120 s (12 %) "));
  waste.kind = WasteKind::SmallReductions;
  test::expect_phrases("watch/judge", {hidden, saving_text(waste, std::nullopt)});
}

}  // namespace
}  // namespace gradsync::watch
