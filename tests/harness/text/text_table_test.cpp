// Covers: text_width.cpp.
#include "harness/text/text_table.h"

#include <gmock/gmock.h>

#include "harness/text/text_width.h"

namespace gradsync::text {
namespace {

TEST(TextWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("2.00 ± 0.01"), 11U);
  EXPECT_EQ(display_width("4×"), 2U);
  EXPECT_EQ(display_width("梯度"), 4U);
  EXPECT_EQ(display_width("e\u0301"), 1U);  // e and a combining acute
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("\xE2\x80"), 2U);  // cut off inside a character
}

TEST(TextWidth, PadsAndCutsByColumns) {
  EXPECT_EQ(pad_left("±1", 4), "  ±1");
  EXPECT_EQ(pad_right("±1", 4), "±1  ");
  EXPECT_EQ(pad_left("longer", 3), "longer");
  EXPECT_EQ(truncate("2.00 ± 0.01", 7), "2.00 ±…");
  EXPECT_EQ(truncate("exact", 5), "exact");
  EXPECT_EQ(truncate("梯度", 3), "梯…");
  EXPECT_EQ(truncate("x", 0), "");
}

TEST(TextTable, LinesUpAndIsMarkdown) {
  TextTable table({{"name", Align::Left}, {"s", Align::Right}, {"", Align::Centre}});
  table.add_row({"a", "1 ± 2", "mid"});
  table.add_row({"long name", "3"});
  EXPECT_EQ(table.to_markdown(),
            "| name      |     s |     |\n"
            "|:----------|------:|:---:|\n"
            "| a         | 1 ± 2 | mid |\n"
            "| long name |     3 |     |\n");
}

TEST(TextTable, ACellCannotBreakTheTable) {
  TextTable table({{"reason", Align::Left}});
  table.add_row({"a|b\nc"});
  EXPECT_EQ(table.to_markdown(), "| reason |\n|:-------|\n| a\\|b c |\n");
}

}  // namespace
}  // namespace gradsync::text
