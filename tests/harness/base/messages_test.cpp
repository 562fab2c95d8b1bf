// Messages as they go through a pipe.
#include "harness/base/messages.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync {

struct Greeting {
  std::string to;
  int times = 1;
};
constexpr auto fields_of(const Greeting*) {
  return std::tuple{constant("say", "hello"), field("to", &Greeting::to),
                    field("times", &Greeting::times)};
}

struct Farewell {};
constexpr auto fields_of(const Farewell*) {
  return std::tuple{constant("say", "bye")};
}

namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Said = std::variant<Farewell, Greeting>;

Said said(const char* line) {
  return read_message<Said>(nlohmann::json::parse(line), "the neighbour");
}

TEST(Messages, AreToldApartByTheirNames) {
  const Said greeting = said(R"({"say": "hello", "to": "you", "times": 3})");
  ASSERT_TRUE(std::holds_alternative<Greeting>(greeting));
  EXPECT_EQ(std::get<Greeting>(greeting).to, "you");
  EXPECT_EQ(std::get<Greeting>(greeting).times, 3);
  EXPECT_TRUE(std::holds_alternative<Farewell>(said(R"({"say": "bye"})")));
  EXPECT_EQ(write_fields(Farewell{}), nlohmann::json({{"say", "bye"}}));
}

TEST(Messages, WhatIsNoneSaysWhoseItWasAndWhy) {
  const auto refused = [](const char* line, const char* why) {
    EXPECT_THAT([&] { said(line); }, ThrowsMessage<InternalError>(HasSubstr(why))) << line;
  };
  refused(R"({"say": "what"})", R"(the neighbour said what is no message: {"say":"what"})");
  refused(R"({"say": "hello", "to": 7, "times": 1})", "field 'to': got 7, expected");
  refused(R"({"say": "hello", "to": "you"})", "field 'times'");
  refused(R"({"says": "hello"})", "no message");
  refused(R"(["say", "hello"])", "no message");
  refused("null", "no message");
}

}  // namespace
}  // namespace gradsync
