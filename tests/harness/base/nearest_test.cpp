// An unknown name is answered with those that are near.
#include "harness/base/nearest.h"

#include <gtest/gtest.h>

namespace gradsync {
namespace {

using Names = std::vector<std::string>;

TEST(NearestNames, AreATypeAway) {
  const Names names = {"steps", "strategy", "smoke", "seed"};
  EXPECT_EQ(nearest_names("stepz", names), Names{"steps"});
  EXPECT_EQ(nearest_names("smoek", names), Names{"smoke"});   // two letters swapped
  EXPECT_EQ(nearest_names("smokes", names), Names{"smoke"});  // one put in
  EXPECT_EQ(nearest_names("fruit", names), Names{});
  EXPECT_EQ(nearest_names("", names), Names{});
}

TEST(NearestNames, BeginAlikeAndTheNearestComesFirst) {
  const Names names = {"bert_mini", "bert_tiny", "mlp", "bert_ti", "bert_base"};
  EXPECT_EQ(nearest_names("bert_tin", names), (Names{"bert_ti", "bert_tiny", "bert_mini"}));
  EXPECT_EQ(nearest_names("bert", names), (Names{"bert_ti", "bert_base", "bert_mini"}));
  EXPECT_EQ(nearest_names("m", names), Names{});
}

TEST(OneOfNames, GivesAShortListWholeAndALongOneWhereNothingIsNear) {
  const Names few = {"run", "report"};
  EXPECT_EQ(one_of_names("runn", few), "one of run, report (did you mean run?)");
  EXPECT_EQ(one_of_names("walk", few), "one of run, report");
  const Names many = {"a1", "b1", "c1", "d1", "e1", "f1", "g1", "steps", "seed"};
  EXPECT_EQ(one_of_names("stepz", many), "one of 9 names (did you mean steps?)");
  EXPECT_EQ(one_of_names("qqqq", many), "one of a1, b1, c1, d1, e1, f1, g1, steps, seed");
}

}  // namespace
}  // namespace gradsync
