#include "harness/base/fields.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "harness/base/errors.h"

namespace gradsync {

struct Span {
  double start_s = 0;
  std::int64_t bytes = 0;
  std::string unit;
};

struct Step {
  int number = 0;
  bool timed = true;
  std::vector<Span> spans;
  std::map<std::string, double> phases;
  std::optional<int> node;
  std::map<std::string, std::int64_t> held;
  nlohmann::json about;
  Known<double> share;
  std::optional<Known<Span>> longest;

  double sum_s() const { return phases.empty() ? 0 : phases.begin()->second; }
};

constexpr auto fields_of(const Span*) {
  return std::tuple{GRADSYNC_FIELDS(Span, start_s, bytes), field("unit", &Span::unit).spared()};
}

constexpr auto fields_of(const Step*) {
  return std::tuple{constant("schema", "test.step/1"),
                    field("number", &Step::number),
                    field("timed", &Step::timed).later(),
                    field("spans", &Step::spans),
                    field("phases", &Step::phases),
                    field("node", &Step::node).later(),
                    field("held", &Step::held).later().or_null(),
                    field("about", &Step::about),
                    field("share", &Step::share).later(),
                    field("longest", &Step::longest).spared(),
                    computed<Step, double>("sum_s", [](const Step& step) { return step.sum_s(); })};
}

struct Transport {
  std::optional<std::optional<std::string>> name;
};

constexpr auto fields_of(const Transport*) {
  return std::tuple{field("name", &Transport::name).spared()};
}

namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Step sample() {
  Step step;
  step.number = 7;
  step.spans = {{0.25, 9007199254740993, ""}, {0.5, 1, "layer3"}};
  step.phases = {{"forward", 0.125}};
  step.about = {{"whatever", {1, 2}}};
  step.share = Unknown{"not recorded"};
  return step;
}

std::string complaint(const json& in) {
  try {
    read_fields<Step>(in, "steps.json:3");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

json changed(const char* pointer, const json& value) {
  json out = write_fields(sample());
  out[json::json_pointer(pointer)] = value;
  return out;
}

TEST(Fields, AStructIsWrittenByItsList) {
  EXPECT_EQ(write_fields(sample()), json::parse(R"({
    "schema": "test.step/1", "number": 7, "timed": true, "about": {"whatever": [1, 2]},
    "spans": [{"start_s": 0.25, "bytes": 9007199254740993},
              {"start_s": 0.5, "bytes": 1, "unit": "layer3"}],
    "phases": {"forward": 0.125}, "node": null, "held": null, "sum_s": 0.125,
    "share": null, "null_reasons": {"share": "not recorded"}})"));
}

TEST(Fields, WhatIsWrittenIsReadBack) {
  Step step = sample();
  for (int i = 0; i < 2; ++i) {
    const json out = write_fields(step);
    const Step back = read_fields<Step>(json::parse(out.dump()), "steps.json");
    EXPECT_EQ(write_fields(back), out);
    EXPECT_EQ(back.share.why_not(), step.share.why_not());
    step.share = 0.5;
    step.longest = Unknown{"no spans"};
    step.node = 3;
    step.held = {{"gradient", 5}};
  }
}

TEST(Fields, AReasonStandsBesideItsNull) {
  Step step = sample();
  step.longest = Unknown{"no spans"};
  EXPECT_EQ(write_fields(step)["null_reasons"],
            json({{"share", "not recorded"}, {"longest", "no spans"}}));
  step.share = 0.5;
  step.longest = Span{};
  EXPECT_EQ(write_fields(step)["null_reasons"], json::object());
}

TEST(Fields, OlderFilesHaveTheDefaultOfWhatTheyLack) {
  json older = write_fields(sample());
  for (const char* name : {"timed", "node", "held", "share", "null_reasons", "sum_s"}) {
    older.erase(name);
  }
  const Step step = read_fields<Step>(older, "steps.json");
  EXPECT_TRUE(step.timed);
  EXPECT_FALSE(step.node.has_value());
  EXPECT_FALSE(step.share);
}

TEST(Fields, WhatIsAbsentIsNotWhatIsNull) {
  for (const json& file : {json::object(), json{{"name", nullptr}}, json{{"name", "shm"}}}) {
    const auto transport = read_fields<Transport>(file, "t.json");
    EXPECT_EQ(transport.name.has_value(), !file.empty()) << file;
    EXPECT_EQ(write_fields(transport), file);
  }
}

TEST(Fields, WhatANewerVersionAddedIsPassedOver) {
  EXPECT_EQ(read_fields<Step>(changed("/new_field", 1), "steps.json").number, 7);
}

TEST(Fields, WhatPeopleWriteMayHaveNoOtherNames) {
  EXPECT_EQ(read_only_fields<Step>(write_fields(sample()), "steps.json").number, 7);
  EXPECT_THAT([] { read_only_fields<Step>(changed("/nubmer", 1), "steps.json"); },
              ThrowsMessage<ConfigError>(HasSubstr("steps.json: field 'nubmer': got 1, expected")));
  EXPECT_THAT([] { read_only_fields<Step>(changed("/spans/1/end", 1), "steps.json"); },
              ThrowsMessage<ConfigError>(HasSubstr("'spans[1].end'")));
  // A map has the names that it has.
  EXPECT_NO_THROW(read_only_fields<Step>(changed("/phases/any", 1), "steps.json"));
}

TEST(Fields, AComplaintNamesTheFileThePlaceAndWhatWasExpected) {
  EXPECT_EQ(complaint(changed("/spans/1/bytes", 1.5)),
            "steps.json:3: field 'spans[1].bytes': got 1.5, expected an integer of 64 bits");
  EXPECT_EQ(complaint(changed("/phases/forward", "long")),
            "steps.json:3: field 'phases.forward': got \"long\", expected a number");
  EXPECT_EQ(complaint(changed("/schema", "test.step/2")),
            "steps.json:3: field 'schema': got \"test.step/2\", expected test.step/1");
  EXPECT_EQ(complaint("a step"),
            "steps.json:3: field '(top level)': got \"a step\", expected an object");
  json lacking = write_fields(sample());
  lacking["spans"][0].erase("start_s");
  EXPECT_EQ(complaint(lacking),
            "steps.json:3: field 'spans[0].start_s': got nothing, expected this field, it is "
            "required");
}

TEST(Fields, EachTypeIsHeldToWhatItCanBe) {
  EXPECT_THAT(complaint(changed("/number", 1LL << 31)), HasSubstr("an integer of 32 bits"));
  EXPECT_THAT(complaint(changed("/number", -(1LL << 31) - 1)), HasSubstr("an integer of 32 bits"));
  EXPECT_THAT(complaint(changed("/number", 1e300)), HasSubstr("an integer of 32 bits"));
  EXPECT_THAT(complaint(changed("/timed", 1)), HasSubstr("true or false"));
  EXPECT_THAT(complaint(changed("/spans", 3)), HasSubstr("a list"));
  EXPECT_THAT(complaint(changed("/spans/1/unit", 3)), HasSubstr("a string"));
  EXPECT_THAT(complaint(changed("/phases", json::array())), HasSubstr("an object"));
  EXPECT_EQ(read_fields<Step>(changed("/number", -(1LL << 31)), "").number,
            std::numeric_limits<int>::min());
}

TEST(Fields, ANumberThatIsNotFiniteIsNull) {
  Step step = sample();
  step.spans[0].start_s = NAN;
  step.spans[1].start_s = INFINITY;
  const json out = write_fields(step);
  EXPECT_TRUE(out["spans"][0]["start_s"].is_null());
  EXPECT_TRUE(out["spans"][1]["start_s"].is_null());
  EXPECT_TRUE(std::isnan(read_fields<Step>(out, "").spans[0].start_s));
}

TEST(Fields, TheSchemaSaysTypesAndWhatIsRequired) {
  const json schema = fields_schema<Step>();
  EXPECT_EQ(schema["required"],
            json({"about", "null_reasons", "number", "phases", "schema", "spans"}));
  EXPECT_EQ(schema["properties"]["schema"], json({{"const", "test.step/1"}}));
  EXPECT_EQ(schema["properties"]["node"]["type"], json({"integer", "null"}));
  EXPECT_EQ(schema["properties"]["held"]["type"], json({"object", "null"}));
  EXPECT_EQ(schema["properties"]["spans"]["items"]["properties"]["unit"]["type"], "string");
  EXPECT_EQ(schema["properties"]["phases"]["additionalProperties"]["type"], "number");
  EXPECT_EQ(schema["properties"]["longest"]["type"], json({"object", "null"}));
}

}  // namespace
}  // namespace gradsync
