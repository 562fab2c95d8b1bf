// Covers: bars.cpp, html/page.cpp, html/style.cpp.
#include "harness/report/html/html.h"

#include <gmock/gmock.h>

#include "harness/report/html/bars.h"
#include "harness/report/html/page.h"

namespace gradsync::html {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using text::Align;
using text::TextTable;

TEST(Html, WhatComesFromARunIsNoMarkup) {
  EXPECT_EQ(escaped("<script>\"&'"), "&lt;script&gt;&quot;&amp;&#39;");
  EXPECT_EQ(escaped("a\x01\x1b[31m\tb"), "a  [31m b");
  EXPECT_EQ(escaped("2.00 ± 0.01"), "2.00 ± 0.01");
}

TEST(Html, MarksBecomeElementsAndOddOnesStay) {
  EXPECT_EQ(inline_marks("**Paced** and `no_sync`"),
            "<strong>Paced</strong> and <code>no_sync</code>");
  EXPECT_EQ(inline_marks("2 ** 3 and ` alone"), "2 ** 3 and ` alone");
  EXPECT_EQ(inline_marks("`<b>`"), "<code>&lt;b&gt;</code>");
}

TEST(Html, ATableKeepsItsCellsAndAlignment) {
  TextTable made({{"where", Align::Left}, {"s"}});
  made.add_row({"a|b", "1"});
  made.add_row({"", "<2>"});
  const std::string text = table(made);
  EXPECT_THAT(text, HasSubstr("<th scope=\"col\" class=\"l\">where</th>"));
  EXPECT_THAT(text, HasSubstr("<tr class=\"group\"><td class=\"l\">a|b</td>"));
  EXPECT_THAT(text, HasSubstr("<tr><td class=\"l\"></td><td class=\"r\">&lt;2&gt;</td></tr>"));
}

TEST(Html, AToneHasItsWords) {
  TextTable made({{"verdict", Align::Left}});
  made.add_row({"regression"});
  EXPECT_THAT(table(made, {Tone::Bad}), HasSubstr("<span class=\"badge bad\">regression</span>"));
}

TEST(Html, NothingIsFoldedAroundNothing) {
  EXPECT_EQ(folded("more", ""), "");
  EXPECT_EQ(list({}), "");
  EXPECT_EQ(facts({{"empty", ""}}), "");
}

TEST(Bars, AreAsLongAsTheirValues) {
  const Bars picture{.title = "steps",
                     .bars = {{.label = "baseline",
                               .value = "2 s",
                               .length = 2,
                               .hue = Hue::SyncsEach,
                               .interval = stats::Interval{1, 3}},
                              {.label = "<no_sync>",
                               .value = "1 s",
                               .length = 1,
                               .hue = Hue::SyncsOnce,
                               .interval = {}}},
                     .limit = {}};
  EXPECT_EQ(longest({picture}), 3);
  const std::string text = bars(picture, 4);
  EXPECT_THAT(text, HasSubstr("class=\"each\" x=\"0\" y=\"4.5\" width=\"50.000%\""));
  EXPECT_THAT(text, HasSubstr("class=\"once\" x=\"0\" y=\"4.5\" width=\"25.000%\""));
  EXPECT_THAT(text, HasSubstr("class=\"interval\" x1=\"25.000%\" y1=\"10.0\" x2=\"75.000%\""));
  EXPECT_THAT(text, HasSubstr("<span>&lt;no_sync&gt;</span> <span class=\"value\">1 s</span>"));
  EXPECT_THAT(text, Not(HasSubstr("class=\"limit\"")));
}

TEST(Bars, AForestHoldsZeroAndItsLimits) {
  const Forest picture{.title = "effects",
                       .effects = {{"a row", "1 %", 0.5, stats::Interval{0.25, 1}}},
                       .limits = {0.75}};
  const std::string text = forest(picture);
  // From 0 to 1 with 3 % of it to either side.
  EXPECT_THAT(text, HasSubstr("class=\"zero\" x1=\"2.830%\""));
  EXPECT_THAT(text, HasSubstr("cx=\"50.000%\""));
  EXPECT_THAT(text, HasSubstr("class=\"limit\" x1=\"73.585%\""));
  EXPECT_EQ(forest({}), "");
}

TEST(Page, IsWholeAndLeavesOutEmptySections) {
  Page page{.title = "<t>", .kicker = "k", .answer = "It holds.", .lead = "", .sections = {}};
  page.sections = {{"a", "First", "<p>x</p>"}, {"b", "Nothing", ""}};
  const std::string text = to_html(page);
  EXPECT_TRUE(text.starts_with("<!DOCTYPE html>"));
  EXPECT_THAT(text, HasSubstr("<title>&lt;t&gt;</title>"));
  EXPECT_THAT(text, HasSubstr("<section id=\"a\">"));
  EXPECT_THAT(text, Not(HasSubstr("Nothing")));
  EXPECT_THAT(text, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(text, Not(HasSubstr("<script")));
}

}  // namespace
}  // namespace gradsync::html
