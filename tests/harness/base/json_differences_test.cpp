#include "harness/base/json_differences.h"

#include <gtest/gtest.h>

namespace gradsync {
namespace {

using nlohmann::json;

std::string told(const json& a, const json& b) {
  std::string text;
  for (const auto& [path, in_a, in_b] : json_differences(a, b)) {
    text += path + ": " + in_a + " | " + in_b + "\n";
  }
  return text;
}

TEST(JsonDifferences, EqualDocumentsHaveNone) {
  EXPECT_EQ(told({{"steps", 8}}, {{"steps", 8}}), "");
}

TEST(JsonDifferences, EveryPlaceHasBothTexts) {
  EXPECT_EQ(told({{"plan", {{"steps", 8}}}, {"old", 1}}, {{"plan", {{"steps", 9}}}, {"new", "x"}}),
            "/old: 1 | nothing\n/plan/steps: 8 | 9\n/new: nothing | \"x\"\n");
}

TEST(JsonDifferences, ALongerListDiffersOnceAsAWhole) {
  EXPECT_EQ(told({{"list", {1}}}, {{"list", {1, 2, 3}}}), "/list: [1] | [1,2,3]\n");
}

TEST(JsonDifferences, DocumentsOfOtherTypesDifferAsAWhole) {
  EXPECT_EQ(told(nullptr, {{"a", 1}}), ": null | {\"a\":1}\n");
}

}  // namespace
}  // namespace gradsync
