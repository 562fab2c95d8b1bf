#include "harness/base/words.h"

#include <gmock/gmock.h>

#include <stdexcept>

namespace gradsync {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StrEq;
using testing::ThrowsMessage;

TEST(SplitWords, DividesAtBlanksAlone) {
  EXPECT_THAT(split_words("torchrun  --nproc-per-node=2\ttrain.py\n"),
              ElementsAre("torchrun", "--nproc-per-node=2", "train.py"));
  EXPECT_THAT(split_words(" "), IsEmpty());
}

TEST(SplitWords, KeepsWhatIsQuotedTogether) {
  EXPECT_THAT(split_words("python 'my job.py' --name=\"a b\"c ''"),
              ElementsAre("python", "my job.py", "--name=a bc", ""));
}

TEST(SplitWords, TakesBackslashesAsAShellDoes) {
  EXPECT_THAT(split_words(R"(a\ b '\n' "\n" "\"" \\)"),
              ElementsAre("a b", "\\n", "\\n", "\"", "\\"));
}

TEST(SplitWords, ALineGoesOnBehindABackslash) {
  EXPECT_THAT(split_words("torchrun \\\n  --nnodes=\\\n1 \\\n train.py"),
              ElementsAre("torchrun", "--nnodes=1", "train.py"));
  EXPECT_THAT(split_words("\"a\\\nb\" 'a\\\nb'"), ElementsAre("ab", "a\\\nb"));
}

TEST(SplitWords, ExpandsNothing) {
  EXPECT_THAT(split_words("python $HOME/*.py ~"), ElementsAre("python", "$HOME/*.py", "~"));
}

TEST(SplitWords, RefusesWhatIsNotClosed) {
  EXPECT_THAT([] { split_words("python 'job.py"); },
              ThrowsMessage<std::invalid_argument>(StrEq("a closing '")));
  EXPECT_THAT([] { split_words("python \"job.py"); },
              ThrowsMessage<std::invalid_argument>(StrEq("a closing \"")));
  EXPECT_THAT([] { split_words("python \\"); },
              ThrowsMessage<std::invalid_argument>(StrEq("a character after the last backslash")));
}

TEST(SplitAtCommas, KeepsWhatIsEmptyAndWhateverElseThereIs) {
  EXPECT_THAT(split_at_commas("eth0,eth1"), ElementsAre("eth0", "eth1"));
  EXPECT_THAT(split_at_commas(",a b,"), ElementsAre("", "a b", ""));
  EXPECT_THAT(split_at_commas(""), ElementsAre(""));
}

TEST(JoinedWords, AreDividedAgainAsTheyWere) {
  EXPECT_EQ(joined_words({"torchrun", "--nproc-per-node=2", "a/b.py"}),
            "torchrun --nproc-per-node=2 a/b.py");
  EXPECT_EQ(joined_words({"a b", "", "it's", "$X"}), R"('a b' '' 'it'\''s' '$X')");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"a b", "", "it's", "\\", "\"", "*"}, {}, {"\n"}}) {
    EXPECT_EQ(split_words(joined_words(words)), words);
  }
}

}  // namespace
}  // namespace gradsync
