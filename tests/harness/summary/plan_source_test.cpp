#include "harness/summary/plan_source.h"

#include <gtest/gtest.h>

namespace gradsync::summary {
namespace {

using nlohmann::json;

const json kPlan = {{"name", "smoke"},
                    {"window_rule", "as_published"},
                    {"cells", {{"model", {"mlp", "bert_mini"}}, {"scale", {1, 50}}}},
                    {"parts",
                     {{{"name", "here"}, {"about", "This machine."}},
                      {{"name", "there"}, {"cells", {{"scale", {50}}}}}}}};

TEST(PlanSource, AnswersFromThePlanAndItsParts) {
  EXPECT_EQ(name_of_plan(kPlan), "smoke");
  EXPECT_TRUE(is_as_published(kPlan));
  EXPECT_EQ(about_part(kPlan, "here"), "This machine.");
  EXPECT_EQ(about_part(kPlan, "there"), "");
}

TEST(PlanSource, APartsOwnListGoesBeforeThePlans) {
  EXPECT_EQ(listed_values(kPlan, "there", "scale"), json({50}));
  EXPECT_EQ(listed_values(kPlan, "there", "model"), json({"mlp", "bert_mini"}));
  EXPECT_EQ(listed_values(kPlan, "here", "scale"), json({1, 50}));
  EXPECT_TRUE(listed_values(kPlan, "here", "dtype").is_null());
}

TEST(PlanSource, OfWhatIsNoPlanNothingIsKnown) {
  for (const json& other : {json(), json::object(), json{{"parts", 3}, {"cells", "all"}}}) {
    EXPECT_FALSE(name_of_plan(other).has_value());
    EXPECT_FALSE(is_as_published(other));
    EXPECT_EQ(about_part(other, ""), "");
    EXPECT_TRUE(listed_values(other, "", "model").is_null());
  }
}

}  // namespace
}  // namespace gradsync::summary
