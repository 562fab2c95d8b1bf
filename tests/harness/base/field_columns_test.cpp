#include "harness/base/field_columns.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync {

struct Event {
  std::string op;
  double start_s = 0;
  std::map<std::string, std::int64_t> bytes;

  bool operator==(const Event&) const = default;
};

constexpr auto fields_of(const Event*) {
  return std::tuple{field("op", &Event::op), field("start_s", &Event::start_s).spared(),
                    field("bytes", &Event::bytes)};
}

struct Recording {
  Columns<Event> events;
};

constexpr auto fields_of(const Recording*) {
  return std::tuple{field("events", &Recording::events)};
}

namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Recording kRecording{{{{"send", 0, {{"a", 1}}}, {"recv", 0.5, {{"a", 2}, {"b", 3}}}}}};

json recorded() {
  return {{"events",
           {{"op", {"send", "recv"}},
            {"start_s", {0.0, 0.5}},
            {"bytes", {{"a", {1, 2}}, {"b", {nullptr, 3}}}}}}};
}

std::string complaint_about(const json& in) {
  try {
    read_fields<Recording>(in, "steps.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

json with(const char* column, const json& values) {
  json in = recorded();
  in["events"][column] = values;
  return in;
}

TEST(Columns, AreWrittenAndReadBack) {
  EXPECT_EQ(write_fields(kRecording), recorded());
  EXPECT_EQ(read_fields<Recording>(recorded(), "steps.json").events.rows, kRecording.events.rows);
}

TEST(Columns, NoRowsAreEmptyColumns) {
  const json written = write_fields(Recording{});
  EXPECT_EQ(written["events"]["op"], json::array());
  EXPECT_TRUE(read_fields<Recording>(written, "steps.json").events.rows.empty());
}

TEST(Columns, AreEquallyLongAndAllThere) {
  EXPECT_THAT(complaint_about(with("start_s", {1.0})),
              AllOf(HasSubstr("steps.json"), HasSubstr("'events.start_s'"), HasSubstr("2 items")));
  EXPECT_THAT(complaint_about(with("bytes", {{"a", {1, 2, 3}}})), HasSubstr("'events.bytes.a'"));
  EXPECT_THAT(complaint_about(with("op", json::array())), HasSubstr("0 items"));
  json lacking = recorded();
  lacking["events"].erase("op");
  EXPECT_THAT(complaint_about(lacking), HasSubstr("'events.op'"));
}

TEST(Columns, AWrongValueIsNamedByItsColumnAndRow) {
  EXPECT_THAT(complaint_about(with("op", {"send", 7})), HasSubstr("'events.op[1]'"));
  EXPECT_THAT(complaint_about(with("bytes", {{"b", {"x", 2}}})), HasSubstr("'events.bytes.b[0]'"));
}

}  // namespace
}  // namespace gradsync
