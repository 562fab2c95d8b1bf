#include "harness/gate/work.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/harness/report/golden.h"

namespace gradsync::gate {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

LineWork line(const char* text, int number, std::int64_t times, std::int64_t bytes = 0) {
  return {"train.py", text, number, times, bytes};
}

RankWork rank_work(int rank) {
  return {{rank},
          {{"mm", {4, 400}}, {"add", {2, 80}}, {"copy Float to Double", {1, 8}}},
          1000,
          {line("loss = model(x)", 7, 4), line("loss.backward()", 8, 3)}};
}

HeldWork work_of(const std::vector<RankWork>& ranks) {
  return {"2.11.0", grouped(ranks)};
}

HeldWork usual() {
  return work_of({rank_work(0), rank_work(1)});
}

// Work of both ranks.
template <typename Change>
HeldWork changed(Change change) {
  std::vector<RankWork> ranks{rank_work(0), rank_work(1)};
  for (RankWork& rank : ranks) change(rank);
  return work_of(ranks);
}

auto line_is(const char* text) {
  return Field(&LineWork::text, text);
}

void expect_said(const std::vector<WorkDifference>& differences) {
  std::vector<std::string> said;
  for (const WorkDifference& difference : differences) said.push_back(sentence(difference));
  test::expect_phrases("gate", said);
}

TEST(Work, RanksThatDoTheSameStandTogether) {
  ASSERT_THAT(usual().ranks, SizeIs(1));
  EXPECT_THAT(usual().ranks[0].ranks, ElementsAre(0, 1));
  RankWork other = rank_work(1);
  other.operators["mm"].times = 5;
  EXPECT_THAT(work_of({rank_work(0), other}).ranks, SizeIs(2));
}

TEST(Work, WhatDiffersInTwoStartsIsChance) {
  EXPECT_EQ(common_work(usual(), usual()), usual());
  const HeldWork second = changed([](RankWork& rank) {
    rank.operators["add"].bytes = 81;
    rank.operators.erase("mm");
    rank.flops = 1001;
    rank.lines.pop_back();
  });
  const RankWork common = common_work(usual(), second).ranks.at(0);
  EXPECT_EQ(common.operators.at("add"), (OperatorWork{2, std::nullopt}));
  EXPECT_EQ(common.operators.at("mm"), (OperatorWork{std::nullopt, std::nullopt}));
  EXPECT_EQ(common.operators.at("copy Float to Double"), (OperatorWork{1, 8}));
  EXPECT_EQ(common.flops, std::nullopt);
  EXPECT_THAT(common.lines, ElementsAre(line_is("loss = model(x)"))) << "the second start has them";
}

TEST(Work, ChanceIsNotCompared) {
  const HeldWork loose = changed([](RankWork& rank) {
    rank.operators["add"] = {2, std::nullopt};
    rank.flops.reset();
  });
  const HeldWork other = changed([](RankWork& rank) {
    rank.operators["add"].bytes = 1;
    rank.flops = 1;
  });
  EXPECT_THAT(work_differences(loose, other), IsEmpty());
  EXPECT_THAT(work_differences(other, loose), IsEmpty());
}

TEST(Work, AnExtraHostReadComesFirstWithItsLine) {
  const auto found = work_differences(usual(), changed([](RankWork& rank) {
                                        rank.operators["mm"].times = 9;
                                        rank.operators["_local_scalar_dense"] = {1, 0};
                                        rank.lines.push_back(line("loss.item()", 9, 1));
                                      }));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].ranks, IsEmpty()) << "every rank";
  EXPECT_THAT(found[0].operators, ElementsAre(OperatorDifference{"_local_scalar_dense", 0, 1, 0, 0},
                                              OperatorDifference{"mm", 4, 9, 400, 400}));
  EXPECT_THAT(found[0].lines, ElementsAre(line("loss.item()", 9, 1)));
  expect_said(found);
}

TEST(Work, OfOneRankAloneNamesIt) {
  RankWork larger = rank_work(1);
  larger.operators["mm"].bytes = 500;
  larger.flops = 1250;
  larger.lines[1].bytes = 100;
  const auto found = work_differences(usual(), work_of({rank_work(0), larger}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].ranks, ElementsAre(1));
  EXPECT_EQ(found[0].held_flops, 1000);
  EXPECT_EQ(found[0].seen_flops, 1250);
  EXPECT_THAT(found[0].lines, ElementsAre(line_is("loss.backward()"))) << "more bytes";
  expect_said(found);
}

TEST(Work, OfLessNamesTheHeldLine) {
  const auto found = work_differences(usual(), changed([](RankWork& rank) {
                                        rank.operators.erase("mm");
                                        rank.lines.pop_back();
                                      }));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].operators, ElementsAre(OperatorDifference{"mm", 4, 0, 400, 0}));
  EXPECT_THAT(found[0].lines, ElementsAre(line_is("loss.backward()")));
  expect_said(found);
}

TEST(Work, OfManyTheFirstFewAreSaid) {
  const auto found =
      work_differences(usual(), changed([](RankWork& rank) {
                         for (int i = 1; i <= 6; ++i) {
                           rank.operators[fmt::format("op{}", i)] = {i, 0};
                           rank.lines.push_back(line(fmt::format("op{}()", i).c_str(), 10 + i, i));
                         }
                       }));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].operators, SizeIs(6));
  EXPECT_EQ(found[0].operators[0].name, "op6");
  expect_said(found);
}

}  // namespace
}  // namespace gradsync::gate
