#include "harness/base/readable_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradsync {
namespace {

using nlohmann::json;

TEST(ReadableJson, KeepsOnALineWhatFitsThere) {
  const json value = {{"schema", "test/1"}, {"a", {{"b", 1}, {"c", json::array({1, 2})}}}};
  EXPECT_EQ(readable_json(value),
            "{\n  \"schema\": \"test/1\",\n  \"a\": {\"b\": 1, \"c\": [1, 2]}\n}\n");
}

TEST(ReadableJson, DividesWhatIsTooLongAndNothingElse) {
  const json value = {{"list", json::array({{{"name", "one"}}, {{"name", "two"}}})}};
  EXPECT_EQ(readable_json(value, 30),
            "{\n  \"list\": [\n    {\"name\": \"one\"},\n    {\"name\": \"two\"}\n  ]\n}\n");
  // 41 columns and the comma that may be behind it.
  EXPECT_EQ(readable_json(value, 41), readable_json(value, 30));
  EXPECT_EQ(readable_json(value, 47),
            "{\n  \"list\": [{\"name\": \"one\"}, {\"name\": \"two\"}]\n}\n");
}

TEST(ReadableJson, IsReadBackAsItWas) {
  const json value = {{"empty", json::object()},
                      {"none", json::array()},
                      {"text", "a\"b\n"},
                      {"numbers", json::array({1, -2.5, nullptr, true})}};
  for (const std::size_t width : {1U, 20U, 100U}) {
    EXPECT_EQ(json::parse(readable_json(value, width)), value);
  }
}

}  // namespace

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
