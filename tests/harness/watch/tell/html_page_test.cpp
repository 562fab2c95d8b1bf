// Covers: page_parts.cpp.

#include <gmock/gmock.h>

#include "harness/watch/tell/pages.h"
#include "tests/harness/watch/sample_jobs.h"

namespace gradsync::watch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string page_of(const std::string& name) {
  for (const auto& [job, processes] : test::sample_jobs()) {
    if (job == name) return watch_html(summarize(processes), "train.py");
  }
  ADD_FAILURE() << name << " is no sample job";
  return "";
}

TEST(WatchHtml, AnImproperJobIsToldWhatToChange) {
  const std::string text = page_of("improper");
  EXPECT_THAT(text, HasSubstr("<span class=\"badge bad\">to be changed</span>"));
  EXPECT_THAT(text, HasSubstr("<strong>What to change</strong>"));
  EXPECT_THAT(text, HasSubstr("<th scope=\"col\" class=\"r\">excess</th>"));
  EXPECT_THAT(text, HasSubstr("role=\"group\" aria-label=\"all_reduce\""));
  EXPECT_LT(text.find("<h1>"), text.find("What to change"));
}

TEST(WatchHtml, AProperJobIsInOrderAndHasNothingToChange) {
  const std::string text = page_of("proper");
  EXPECT_THAT(text, HasSubstr("<span class=\"badge good\">in order</span>"));
  EXPECT_THAT(text, Not(HasSubstr("What to change")));
}

TEST(WatchHtml, WhatIsNotRecognisedIsNoColourOfGuilt) {
  const std::string text = page_of("cleared");
  EXPECT_THAT(text, HasSubstr("not recognised"));
  EXPECT_THAT(text, Not(HasSubstr("badge bad")));
  EXPECT_THAT(text, Not(HasSubstr("badge good")));
}

TEST(WatchHtml, AWasteStandsBesideWhatIsInOrder) {
  const std::string text = page_of("one_bucket");
  EXPECT_THAT(text, HasSubstr("<span class=\"badge good\">in order</span>"));
  EXPECT_THAT(text, HasSubstr("<span class=\"badge unsure\">a waste</span>"));
  EXPECT_THAT(text, HasSubstr("Overlap with backward would hide at most 0.035 s"));
  EXPECT_THAT(text, HasSubstr("train.py:5"));
  EXPECT_THAT(page_of("proper"), Not(HasSubstr("a waste")));
}

TEST(WatchHtml, NothingOfAJobIsMarkup) {
  Watched watched = summarize(test::sample_jobs().front().processes);
  watched.faults.emplace_back("<script>alert(1)</script>");
  watched.verdicts.front().change = Change{"<b>.py", 3, "<i>"};
  const std::string text = watch_html(watched, "<u>");
  for (const char* markup : {"<script", "<b>", "<i>", "<u>"}) {
    EXPECT_THAT(text, Not(HasSubstr(markup)));
  }
  EXPECT_THAT(text, HasSubstr("&lt;b&gt;.py:3"));
}

}  // namespace
}  // namespace gradsync::watch
