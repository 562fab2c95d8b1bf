#include "harness/base/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>

#include "harness/base/errors.h"

namespace gradsync {
namespace {

using nlohmann::json;
using ::testing::StartsWith;

std::string complaint(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

TEST(JsonFields, ReadsEachType) {
  const json object = {{"name", "smoke"}, {"steps", 8}, {"scale", 0.5}, {"resume", true}};
  JsonFields fields(object, "plan.json");
  EXPECT_EQ(fields.string("name"), "smoke");
  EXPECT_EQ(fields.positive_int("steps"), 8);
  EXPECT_DOUBLE_EQ(fields.number("scale"), 0.5);
  EXPECT_TRUE(fields.boolean("resume"));
  EXPECT_NO_THROW(fields.finish());
}

TEST(JsonFields, ANumberMayBeWrittenAsAnInteger) {
  const json object = {{"scale", 25}};
  EXPECT_DOUBLE_EQ(JsonFields(object, "plan.json").number("scale"), 25.0);
}

TEST(JsonFields, AbsentAndNullTakeTheFallback) {
  const json object = {{"seed", nullptr}};
  JsonFields fields(object, "plan.json");
  EXPECT_EQ(fields.integer("seed", 0, 42), 42);
  EXPECT_EQ(fields.string("about", "none"), "none");
  EXPECT_FALSE(fields.boolean("quiet", false));
  EXPECT_DOUBLE_EQ(fields.number("scale", 1.5), 1.5);
}

TEST(JsonFields, AFallbackDoesNotExcuseAWrongValue) {
  const json object = {{"steps", 0}};
  EXPECT_EQ(complaint([&] { JsonFields(object, "plan.json").positive_int("steps", 8); }),
            "plan.json: field 'steps': got 0, expected an integer of at least 1");
}

struct WrongField {
  json value;
  std::function<void(JsonFields&)> read;
  std::string message;
};

class JsonFieldsMessage : public ::testing::TestWithParam<WrongField> {};

TEST_P(JsonFieldsMessage, IsExact) {
  const json object = {{"f", GetParam().value}};
  JsonFields fields(object, "plan.json", "cells.");
  EXPECT_EQ(complaint([&] { GetParam().read(fields); }),
            "plan.json: field 'cells.f': " + GetParam().message);
}

void read_string(JsonFields& fields) {
  fields.string("f");
}
void read_boolean(JsonFields& fields) {
  fields.boolean("f");
}
void read_number(JsonFields& fields) {
  fields.number("f");
}
void read_count(JsonFields& fields) {
  fields.positive_int("f");
}
void read_warmup(JsonFields& fields) {
  fields.integer("f", 0);
}

INSTANTIATE_TEST_SUITE_P(
    Types, JsonFieldsMessage,
    ::testing::Values(WrongField{3, read_string, "got 3, expected a string"},
                      WrongField{nullptr, read_string, "got null, expected a string"},
                      WrongField{"yes", read_boolean, "got \"yes\", expected true or false"},
                      WrongField{1, read_boolean, "got 1, expected true or false"},
                      WrongField{"1.5", read_number, "got \"1.5\", expected a number"},
                      WrongField{1.5, read_count, "got 1.5, expected an integer of at least 1"},
                      WrongField{-4, read_count, "got -4, expected an integer of at least 1"},
                      WrongField{json::array({1, 2}), read_count,
                                 "got [1,2], expected an integer of at least 1"},
                      WrongField{-1, read_warmup, "got -1, expected an integer of at least 0"}));

TEST(JsonFields, RequiredFieldIsNamed) {
  const json object = json::object();
  EXPECT_EQ(complaint([&] { JsonFields(object, "plan.json").string("name"); }),
            "plan.json: field 'name': got nothing, expected this field, it is required");
}

TEST(JsonFields, AnIntegerTooLargeToHoldIsRefused) {
  const json object = {{"seed", std::numeric_limits<std::uint64_t>::max()}};
  EXPECT_THAT(complaint([&] { JsonFields(object, "plan.json").integer("seed", 0); }),
              StartsWith("plan.json: field 'seed': got 18446744073709551615, expected"));
}

TEST(JsonFields, LongValuesAreCutToOneLine) {
  const json object = {{"steps", std::string(200, 'x')}};
  EXPECT_EQ(complaint([&] { JsonFields(object, "plan.json").positive_int("steps"); }),
            "plan.json: field 'steps': got \"" + std::string(79, 'x') +
                "..., expected an integer of at least 1");
}

TEST(JsonFields, FinishRefusesUnknownFieldsAndNamesTheKnown) {
  const json object = {{"steps", 8}, {"stepz", 9}};
  JsonFields fields(object, "plan.json");
  fields.positive_int("steps");
  fields.string("about", "");
  EXPECT_EQ(complaint([&] { fields.finish(); }),
            "plan.json: field 'stepz': got an unknown field, expected one of about, steps "
            "(did you mean steps?)");
}

TEST(JsonFields, OnlyAnObjectHasFields) {
  const json list = json::array();
  EXPECT_EQ(complaint([&] { JsonFields(list, "plan.json"); }),
            "plan.json: field '(top level)': got [], expected an object");
  EXPECT_EQ(complaint([&] { JsonFields(list, "plan.json", "cells"); }),
            "plan.json: field 'cells': got [], expected an object");
}

class ReadJsonFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  void TearDown() override { std::remove(path_.c_str()); }

  const std::string path_ =
      ::testing::TempDir() + "gradsync_json_" + std::to_string(getpid()) + ".json";
};

TEST_F(ReadJsonFile, ReturnsWhatIsThere) {
  EXPECT_EQ(read_json_file(write(R"({"steps": 8})")), json({{"steps", 8}}));
}

TEST_F(ReadJsonFile, MissingFileIsNamedWithTheReason) {
  EXPECT_EQ(complaint([&] { read_json_file(path_); }),
            path_ + ": cannot be read: No such file or directory");
}

TEST_F(ReadJsonFile, ADirectoryIsNoFile) {
  EXPECT_EQ(complaint([] { read_json_file("/"); }), "/: cannot be read: Is a directory");
}

TEST_F(ReadJsonFile, TruncatedFileSaysWhere) {
  const std::string message = complaint([&] { read_json_file(write("{\n  \"steps\": 8,\n")); });
  EXPECT_THAT(message, StartsWith(path_ + ": not valid JSON: "));
  EXPECT_THAT(message, ::testing::HasSubstr("line 3"));
}

}  // namespace
}  // namespace gradsync
