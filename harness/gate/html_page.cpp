#include "harness/gate/page.h"

#include <fmt/format.h>

#include <vector>

#include "harness/gate/page_parts.h"
#include "harness/gate/verdict.h"
#include "harness/report/html/bars.h"
#include "harness/report/html/html.h"
#include "harness/report/html/page.h"

namespace gradsync::gate {

using html::Tone;

namespace {

Tone tone_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Pass:
      return Tone::Good;
    case Verdict::Regression:
      return Tone::Bad;
    case Verdict::Undecided:
      return Tone::Unsure;
    case Verdict::Unfit:
      break;
  }
  return Tone::None;
}

std::string answer_of(const GateReport& report) {
  switch (verdict_of(report)) {
    case Verdict::Pass:
      return "The gate passed: " + tally(report) + ".";
    case Verdict::Regression:
      return "The gate did not pass, a regression was found: " + tally(report) + ".";
    case Verdict::Undecided:
      return "The gate is undecided: " + tally(report) + ".";
    case Verdict::Unfit:
      break;
  }
  return "The gate could not judge: " + tally(report) + ".";
}

// What the rows of one measure came to, on one scale.
std::string forest_of(const GateReport& report, const std::vector<std::string>& names,
                      Measure measure) {
  html::Forest picture{.title = "effect on each row", .effects = {}, .limits = {}};
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const RowReport& row = report.rows[i];
    if (!row.times || !row.times->measures[measure].effect) continue;
    const Effect& effect = *row.times->measures[measure].effect;
    picture.effects.push_back({names[i], measure_text(row, measure), effect.value, effect.ci95});
  }
  if (report.asked) {
    const Settings& settings = report.asked->settings;
    picture.limits = {settings.margin, measure == Measure::Mean && report.asked->of_turns
                                           ? settings.mean_smallest_effect
                                           : settings.smallest_effect};
  }
  return html::forest(picture);
}

std::string pictures_of(const GateReport& report, const std::vector<std::string>& names) {
  const std::string limits =
      report.asked ? "; the dashed lines are the margin and the smallest effect to be found" : "";
  const auto caption = [&](const char* what) {
    return html::escaped(
        fmt::format("{}: how much slower the candidate is, with its interval{}.", what, limits));
  };
  return html::figure(caption("Low quantile of steps"), forest_of(report, names, Measure::Low)) +
         html::figure(caption("Mean of steps"), forest_of(report, names, Measure::Mean));
}

template <typename Judged, typename VerdictOf>
std::vector<Tone> tones_of(const std::vector<Judged>& judged, const VerdictOf& verdict) {
  std::vector<Tone> tones;
  for (const Judged& one : judged) tones.push_back(tone_of(verdict(one)));
  return tones;
}

std::string rows_section(const GateReport& report, const std::vector<std::string>& names) {
  if (report.rows.empty()) return "";
  const auto verdict = [](const RowReport& row) { return verdict_of(row); };
  return html::table(row_table(report.rows, names), tones_of(report.rows, verdict)) +
         pictures_of(report, names);
}

std::string claims_section(const GateReport& report) {
  if (report.claims.empty()) return "";
  const auto verdict = [](const ClaimOutcome& claim) { return claim.verdict; };
  return html::element("p",
                       "Of " + html::element("code", html::escaped(report.claims_file)) + ":") +
         "\n" + html::table(claim_table(report.claims), tones_of(report.claims, verdict));
}

std::string how_section(const GateReport& report) {
  std::vector<std::pair<std::string, std::string>> facts{{"Plan", report.plan}};
  for (const SideWords& side : sides_of(report)) {
    facts.emplace_back("The " + side.which, side.name + "; " + side.build);
  }
  facts.emplace_back("Asked", settings_text(report));
  facts.emplace_back("Exit status", std::to_string(exit_status(report)));
  return html::facts(facts) + html::list(all_notes(report));
}

}  // namespace

std::string gate_html(const GateReport& report) {
  const std::vector<std::string> names = names_of(report.rows);
  const Verdict verdict = verdict_of(report);
  html::Page page{
      .title = fmt::format("gradsync gate {}: {}", report.plan, to_string(verdict)),
      .kicker = "gradsync gate, " + report.plan,
      .answer = answer_of(report),
      .lead = html::element("p", html::badge(tone_of(verdict), to_string(verdict))) + "\n",
      .sections = {}};
  page.sections = {{"rows", "Rows", rows_section(report, names)},
                   {"claims", "Claims", claims_section(report)},
                   {"why", "Why", html::list(all_reasons(report, names))},
                   {"how", "What was compared", how_section(report)}};
  return html::to_html(page);
}

}  // namespace gradsync::gate
