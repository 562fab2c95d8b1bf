#include "harness/base/readable_json.h"

#include <gmock/gmock.h>

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
}  // namespace gradsync
