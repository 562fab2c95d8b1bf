#include "harness/launch/json_lines.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Our end reads JSON lines; the other writes whatever it likes.
class JsonLinesTest : public testing::Test {
 protected:
  JsonLinesTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    lines_ = JsonLines(UniqueFd(ends[0]), "a stranger");
    other_ = UniqueFd(ends[1]);
  }
  void other_writes(const std::string& text) {
    ASSERT_EQ(::write(other_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string refusal() {
    try {
      lines_.read();
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  }

  JsonLines lines_;
  UniqueFd other_;
};

std::string nested(int depth) {
  return "{\"a\": " + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}\n";
}

TEST_F(JsonLinesTest, ReadsWholeLinesAndKeepsTheRest) {
  other_writes("{\"a\": 1}\n{\"b\": [2]}\n{\"c\"");
  EXPECT_THAT(lines_.read(), ElementsAre(json{{"a", 1}}, json{{"b", {2}}}));
  other_writes(": 3}\n");
  EXPECT_THAT(lines_.read(), ElementsAre(json{{"c", 3}}));
  EXPECT_THAT(lines_.read(), IsEmpty());
  EXPECT_TRUE(lines_.is_open());
}

TEST(JsonLines, WhoWritesTooMuchIsCutOff) {
  constexpr std::size_t kMostBytes = 100;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  JsonLines lines(UniqueFd(ends[0]), "a stranger", kMostBytes);
  const UniqueFd other(ends[1]);
  const auto write = [&](const std::string& text) {
    ASSERT_EQ(::write(other.get(), text.data(), text.size()), std::ssize(text));
  };
  write("{}\n");
  EXPECT_THAT(lines.read(), ElementsAre(json::object()));
  write(std::string(kMostBytes, ' '));
  EXPECT_THAT(lines.read(), IsEmpty());
  EXPECT_TRUE(lines.is_open()) << "what was read before does not count";
  write(" ");
  EXPECT_THAT(lines.read(), IsEmpty());
  EXPECT_FALSE(lines.is_open());
}

TEST_F(JsonLinesTest, ClosesWhenTheOtherEndDoes) {
  other_writes("{}\n");
  other_.reset();
  EXPECT_THAT(lines_.read(), ElementsAre(json::object()));
  EXPECT_FALSE(lines_.is_open());
}

TEST_F(JsonLinesTest, RefusesLinesThatAreNoObjects) {
  for (const char* line : {"[1]\n", "GET / HTTP/1.1\n", "\n", "{\"a\": }\n"}) {
    other_writes(line);
    EXPECT_THAT(refusal(), HasSubstr("a stranger wrote a line that is no JSON object")) << line;
  }
}

TEST_F(JsonLinesTest, TakesNoMessageThatIsNestedDeeperThanFiles) {
  other_writes(nested(kDeepestJson));
  EXPECT_EQ(lines_.read().size(), 1U);
  other_writes(nested(kDeepestJson + 1));
  EXPECT_THAT(refusal(), HasSubstr("no JSON object: {\"a\": [[["));
}

}  // namespace
}  // namespace gradsync::launch
