// Calls of a job in every step, and which of them are chatter.
// Covers: waste_words.cpp.
#include "harness/watch/judge/wastes/chatter.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/harness/report/golden.h"
#include "tests/harness/watch/judge/wastes/wasting_job.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kGradientBytes = 80'000;

// Six steps of 68 ms under DDP, and what `chatter` adds to each.
template <typename Chatter>
MadeJob chattering(Chatter chatter, MadeJob job = MadeJob()) {
  return job.wrap(1, "", kGradientBytes).times(6, [&](MadeJob& j) {
    j.forward().reducing().optimizer();
    chatter(j);
  });
}

TEST(Chatter, EachKindIsCountedTimedAndPlaced) {
  const std::vector<Waste> wastes = wastes_on({test::chattering_job(0), test::chattering_job(1)});
  ASSERT_EQ(wastes.size(), 3U);
  EXPECT_EQ(wastes[0].kind, WasteKind::Barriers);
  EXPECT_EQ(wastes[0].reductions, 1);
  EXPECT_NEAR(*wastes[0].saved_s, 0.020, 1e-9);
  EXPECT_EQ(wastes[1].kind, WasteKind::ObjectCollectives);
  EXPECT_NEAR(*wastes[1].saved_s, 0.030, 1e-9);
  EXPECT_EQ(wastes[2].kind, WasteKind::SmallCollectives);
  EXPECT_EQ(wastes[2].reductions, 4);
  EXPECT_NEAR(*wastes[2].saved_s, 0.017, 1e-9);
  ASSERT_EQ(wastes[2].places.size(), 2U);
  EXPECT_EQ(wastes[2].places[0].line, 71);
  EXPECT_EQ(wastes[2].places[0].calls, 3);
  EXPECT_NEAR(wastes[2].places[0].takes_s, 0.012, 1e-9);
  EXPECT_EQ(wastes[2].change->line, 71);
  std::vector<std::string> said;
  for (const Waste& waste : wastes) {
    said.insert(said.end(), {waste.sentence, waste.why, change_text(*waste.change)});
  }
  test::expect_phrases("watch/judge", said);
}

TEST(Chatter, IsToldWhereItIsThreePercentOfAStep) {
  const auto job = [](std::int64_t takes) {
    return chattering([=](MadeJob& j) { j.call("barrier", takes, "barrier", 0); });
  };
  EXPECT_THAT(kinds_on(job(3)), ElementsAre(WasteKind::Barriers));
  EXPECT_THAT(kinds_on(job(1)), IsEmpty());
}

TEST(Chatter, ALineThatTakesLessIsNotNamed) {
  const std::vector<Waste> wastes = wastes_on({chattering([](MadeJob& j) {
    j.call("barrier", 9, "barrier", 0, 75).call("barrier", 1, "barrier", 0, 76);
  })});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].reductions, 1);
  EXPECT_NEAR(*wastes[0].saved_s, 0.009, 1e-9);
  ASSERT_EQ(wastes[0].places.size(), 1U);
  EXPECT_EQ(wastes[0].places[0].line, 75);
}

TEST(Chatter, OfFewerThanFiveStepsIsNotTold) {
  const auto job = [](int steps) {
    return MadeJob().wrap(1, "", kGradientBytes).times(steps, [](MadeJob& j) {
      j.forward().reducing().optimizer().call("barrier", 50, "barrier", 0);
    });
  };
  EXPECT_THAT(kinds_on(job(5)), IsEmpty());  // the first one is not counted
  EXPECT_THAT(kinds_on(job(6)), ElementsAre(WasteKind::Barriers));
}

TEST(Chatter, WhatMayDecideTheStepIsNoWaste) {
  const std::vector<Waste> wastes = wastes_on({chattering([](MadeJob& j) {
    j.call("all_reduce", 5, "all_reduce", 8, 81, "int64");
    j.call("all_reduce", 5, "all_reduce", 8, 82, "float32 max");
    j.call("all_reduce", 9, "all_reduce", 8, 83, "float32");
  })});
  ASSERT_EQ(wastes.size(), 2U);
  EXPECT_EQ(wastes[0].kind, WasteKind::SmallCollectives);
  EXPECT_EQ(wastes[0].places[0].line, 83);
  EXPECT_EQ(wastes[1].kind, WasteKind::Agreements);
  EXPECT_EQ(wastes[1].reductions, 2);
  EXPECT_FALSE(wastes[1].change);
  test::expect_phrases("watch/judge", {wastes[1].sentence, wastes[1].why});
}

TEST(Chatter, BetweenForwardAndOptimizerItMayDecideTheStep) {
  const MadeJob job = MadeJob().wrap(1, "", kGradientBytes).times(6, [](MadeJob& j) {
    j.forward().reducing().call("all_reduce", 9, "all_reduce", 8, 81, "float32").optimizer();
  });
  EXPECT_THAT(kinds_on(job), ElementsAre(WasteKind::Agreements));
}

TEST(Chatter, OfSomeStepsAloneIsNotTold) {
  int step = 0;
  EXPECT_THAT(kinds_on(chattering([&](MadeJob& j) {
                if (++step % 3 == 0) j.call("barrier", 50, "barrier", 0);
              })),
              IsEmpty());
}

TEST(Chatter, ALateRankIsNotItsPrice) {
  const auto rank = [](int number, std::int64_t computes, std::int64_t takes) {
    return chattering(
        [=](MadeJob& j) { j.computes(computes).call("barrier", takes, "barrier", 0); },
        MadeJob(number));
  };
  const std::vector<Waste> wastes = wastes_on({rank(0, 0, 45), rank(1, 40, 5)});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_NEAR(*wastes[0].saved_s, 0.005, 1e-9);
}

// Nothing lies between the calls for which a rank could be late but the calls before.
TEST(Chatter, OfCallsThatFollowEachOtherOneRankCounts) {
  const auto rank = [](int number, std::int64_t takes, std::int64_t takes_next) {
    return chattering(
        [=](MadeJob& j) {
          j.call("barrier", takes, "barrier", 0).call("barrier", takes_next, "barrier", 0);
          j.computes(100).call("barrier", takes, "barrier", 0);
        },
        MadeJob(number));
  };
  const std::vector<Waste> wastes = wastes_on({rank(0, 9, 2), rank(1, 2, 9)});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_NEAR(*wastes[0].saved_s, 0.011 + 0.002, 1e-9);
}

TEST(Chatter, RanksThatDoNotCallAlikeAreNotCompared) {
  const auto rank = [](int number, int calls) {
    return chattering(
        [=](MadeJob& j) { j.times(calls, [](MadeJob& k) { k.call("barrier", 9, "barrier", 0); }); },
        MadeJob(number));
  };
  EXPECT_EQ(wastes_on({rank(0, 2), rank(1, 2)}).size(), 1U);
  EXPECT_THAT(wastes_on({rank(0, 2), rank(1, 1)}), IsEmpty());
}

TEST(Chatter, WhatTheModelCallsIsItsOwn) {
  const MadeJob job = MadeJob().wrap(1, "", kGradientBytes).times(6, [](MadeJob& j) {
    j.begin(EventKind::Forward).call("all_reduce", 9, "all_reduce", 8).end();
    j.begin(EventKind::Backward).call("all_reduce", 9, "all_reduce", 8).end();
    j.begin(EventKind::OptimizerStep).call("barrier", 9, "barrier", 0).end();
  });
  EXPECT_THAT(kinds_on(job), IsEmpty());
}

TEST(Chatter, ALineThatMovesMoreIsNone) {
  const auto job = [](std::int64_t bytes) {
    return chattering([=](MadeJob& j) {
      j.call("all_reduce", 9, "all_reduce", 8).call("all_reduce", 9, "all_reduce", bytes);
    });
  };
  EXPECT_THAT(kinds_on(job(kSmallBytes)), ElementsAre(WasteKind::SmallCollectives));
  EXPECT_THAT(kinds_on(job(kSmallBytes + 1)), IsEmpty());
  EXPECT_THAT(kinds_on(job(-1)), IsEmpty());
}

TEST(Chatter, ParametersAveragedByHandAreNone) {
  const auto job = [](int tensors) {
    return chattering([=](MadeJob& j) {
      j.times(tensors, [](MadeJob& k) { k.call("all_reduce", 2, "all_reduce", 4000); });
    });
  };
  EXPECT_THAT(kinds_on(job(9)), ElementsAre(WasteKind::SmallCollectives));
  EXPECT_THAT(kinds_on(job(10)), IsEmpty());  // half of the gradients
}

TEST(Chatter, GradientsReducedByHandAreNone) {
  const MadeJob job = MadeJob().times(6, [](MadeJob& j) {
    j.reduced_by_hand(2, 40, {}).call("all_reduce", 9, "all_reduce", 400);
    j.call("all_reduce", 9, "all_reduce", 40).optimizer();
  });
  EXPECT_THAT(kinds_on(job), IsEmpty());
}

TEST(Chatter, WithoutEndsManyAreCountedAndNotTimed) {
  const auto job = [](int calls) {
    MadeJob made;
    made.ends_are_known = false;
    return chattering(
        [=](MadeJob& j) {
          j.times(calls, [](MadeJob& k) { k.call("all_reduce", 0, "all_reduce", 8); });
        },
        made);
  };
  EXPECT_THAT(kinds_on(job(15)), IsEmpty());
  const std::vector<Waste> wastes = wastes_on({job(16)});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].kind, WasteKind::SmallCollectives);
  EXPECT_EQ(wastes[0].reductions, 16);
  EXPECT_FALSE(wastes[0].saved_s);
}

TEST(Chatter, ReadsOfTheDeviceAreCountedWhereverTheyAre) {
  const std::vector<Waste> wastes = wastes_on({chattering([](MadeJob& j) {
    j.call("read item", 9, "", 0, 80).begin(EventKind::Forward);
    j.call("read item", 9, "", 0, 80).end();
  })});
  ASSERT_EQ(wastes.size(), 1U);
  EXPECT_EQ(wastes[0].kind, WasteKind::HostReads);
  EXPECT_EQ(wastes[0].reductions, 2);
  ASSERT_EQ(wastes[0].places.size(), 1U);
  EXPECT_NEAR(wastes[0].places[0].takes_s, 0.018, 1e-9);
  test::expect_phrases("watch/judge", {wastes[0].sentence, wastes[0].saved_s.why_not()});
}

}  // namespace
}  // namespace gradsync::watch
