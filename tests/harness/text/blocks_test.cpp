#include "harness/text/blocks.h"

#include <gmock/gmock.h>

namespace gradsync::text {
namespace {

TEST(Blocks, AreMarkdownWithABlankLineBetweenTwo) {
  TextTable table({{"a", Align::Left}});
  table.add_row({"1"});
  const Blocks blocks{Heading{"part"}, Prose{"about\n"}, table, Bullets{{"one", "two"}},
                      Sentences{{"found.", "and more."}}};
  EXPECT_EQ(to_markdown(blocks),
            "## part\n\nabout\n\n| a   |\n|:----|\n| 1   |\n\n- one\n- two\n\nfound.\nand more.\n");
}

TEST(Blocks, WithoutTextTheyAreLeftOut) {
  EXPECT_EQ(to_markdown({Prose{""}, Bullets{}, Prose{"x\n"}, Sentences{}}), "x\n");
  EXPECT_EQ(to_markdown({}), "");
}

}  // namespace
}  // namespace gradsync::text
