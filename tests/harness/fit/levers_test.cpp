#include "harness/fit/levers.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync::fit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal_of(const std::string& text) {
  try {
    read_lever(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Levers, HaveANameAndFlags) {
  const Lever named = read_lever("checkpointing=--checkpoint 'every layer'");
  EXPECT_EQ(named.name, "checkpointing");
  EXPECT_THAT(named.words, ElementsAre("--checkpoint", "every layer"));
}

TEST(Levers, WithoutANameAreCalledByTheirFlags) {
  const Lever lever = read_lever("--dtype=bfloat16 --fused");
  EXPECT_EQ(lever.name, "--dtype=bfloat16 --fused");
  EXPECT_THAT(lever.words, ElementsAre("--dtype=bfloat16", "--fused"));
}

TEST(Levers, ThatSayNothingAreRefused) {
  EXPECT_THAT(refusal_of(""), HasSubstr("--lever: got \"\", expected a name and flags"));
  EXPECT_THAT(refusal_of("sgd="), HasSubstr("expected a name and flags"));
  EXPECT_THAT(refusal_of("a='b"), HasSubstr("--lever: got \"a='b\", expected"));
}

TEST(Levers, StandWhereTheCommandHasTheirPlace) {
  EXPECT_THAT(with_words({"python", "train.py", "{}", "-v"}, {"--fused", "1"}),
              ElementsAre("python", "train.py", "--fused", "1", "-v"));
  EXPECT_THAT(with_words({"python", "{}"}, {}), ElementsAre("python"));
  EXPECT_THROW(with_words({"python"}, {"--fused"}), ConfigError);
}

}  // namespace
}  // namespace gradsync::fit
