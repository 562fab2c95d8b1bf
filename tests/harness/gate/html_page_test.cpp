#include "harness/gate/page.h"

#include <gmock/gmock.h>

#include "tests/harness/gate/sample_gate.h"

namespace gradsync::gate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GateHtml, SaysFirstWhatCameOut) {
  const std::string text = gate_html(test::sample_gate());
  EXPECT_THAT(text, HasSubstr("<h1>The gate did not pass, a regression was found: "));
  for (const char* badge :
       {"good\">pass", "bad\">regression", "unsure\">undecided", "none\">unfit"}) {
    EXPECT_THAT(text, HasSubstr(badge));
  }
  EXPECT_LT(text.find("<section id=\"rows\">"), text.find("<section id=\"why\">"));
}

TEST(GateHtml, DrawsEffectsWithTheirLimits) {
  const std::string text = gate_html(test::sample_gate());
  EXPECT_THAT(text, HasSubstr("Low quantile of steps: how much slower the candidate is"));
  EXPECT_THAT(text, HasSubstr("class=\"dot\""));
  EXPECT_THAT(text, HasSubstr("class=\"limit\""));
}

TEST(GateHtml, OfCountsAloneHasNoPicture) {
  EXPECT_THAT(gate_html(test::sample_counts_gate()), Not(HasSubstr("<svg")));
}

TEST(GateHtml, NothingOfAGateIsMarkup) {
  GateReport report = test::sample_jobs_gate();
  report.candidate.name = "python <script>";
  report.notes.emplace_back("<script>");
  EXPECT_THAT(gate_html(report), Not(HasSubstr("<script>")));
}

}  // namespace
}  // namespace gradsync::gate
