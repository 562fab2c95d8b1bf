#include "harness/report/html/run_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/base/units.h"
#include "harness/paper/words.h"
#include "harness/report/html/html.h"
#include "harness/report/html/page.h"
#include "harness/report/part_page.h"
#include "harness/report/tables.h"
#include "harness/summary/plan_source.h"
#include "harness/summary/timed_steps.h"
#include "harness/text/labels.h"

namespace gradsync::html {

using results::Context;
using results::Result;
using summary::GuideClaim;
using summary::GuideEvidence;
using summary::GuideVerdict;
using summary::PartView;

namespace {

// More settings than this of one claim are folded away.
constexpr std::size_t kMostEvidenceShown = 8;

Tone tone_of(GuideVerdict verdict) {
  switch (verdict) {
    case GuideVerdict::Holds:
      return Tone::Good;
    case GuideVerdict::DoesNotHold:
      return Tone::Bad;
    case GuideVerdict::Undecided:
      return Tone::Unsure;
    case GuideVerdict::NotMeasured:
      break;
  }
  return Tone::None;
}

std::string evidence_item(const GuideEvidence& evidence) {
  const std::string place =
      evidence.part.empty() ? evidence.place : evidence.part + ": " + evidence.place;
  return element("li", element("span", escaped(place), css_class("place")) +
                           badge(tone_of(evidence.verdict), to_string(evidence.verdict)) + " " +
                           escaped(evidence.sentence)) +
         "\n";
}

std::string claim_card(const GuideClaim& claim) {
  std::string evidence;
  for (const GuideEvidence& one : claim.evidence) evidence += evidence_item(one);
  if (!evidence.empty()) evidence = "<ul>\n" + evidence + "</ul>\n";
  if (claim.evidence.size() > kMostEvidenceShown) {
    evidence = folded(fmt::format("{} settings", claim.evidence.size()), evidence);
  }
  const bool is_told_below = claim.evidence.size() == 1;
  return "<div class=\"claim\">\n" + badge(tone_of(claim.verdict), to_string(claim.verdict)) +
         element("h3", escaped(claim.text)) + "\n" +
         (is_told_below ? "" : element("p", escaped(claim.summary)) + "\n") + evidence + "</div>\n";
}

std::string claims_section(const std::vector<GuideClaim>& claims) {
  std::string text = element(
      "p",
      "What the guide “Gradient Synchronization” says, held against this run. Effects are ratios "
      "of mean steps with 95 % intervals over launches; a claim is decided by whole intervals, and "
      "without one it stays undecided.",
      css_class("about"));
  text += "\n";
  for (const GuideClaim& claim : claims) text += claim_card(claim);
  return text;
}

std::string part_section(const PartView& part, const report::PartPage& page) {
  std::string text;
  if (!page.name.empty()) text += element("h3", escaped(page.name)) + "\n";
  if (!page.about.empty()) text += element("p", inline_marks(page.about)) + "\n";
  for (const std::string& term : page.terms) {
    const bool is_first = &term == &page.terms.front();  // what kind of compute it was
    if (!term.empty()) text += element("p", inline_marks(term), is_first ? "" : css_class("about"));
  }
  text += "\n";
  // The table first, and below it what its columns mean.
  std::string tables;
  std::string meanings;
  for (const text::Block& block : page.table) {
    (std::holds_alternative<text::TextTable>(block) ? tables : meanings) += blocks({block});
  }
  text += tables + meanings + list(page.notes.items);
  text += part.is_about_memory ? memory_pictures(part) + step_pictures(part)
                               : step_pictures(part) + memory_pictures(part);
  return text + folded("More tables of these rows", blocks(page.more));
}

std::string numbers_section(const std::vector<PartView>& parts,
                            const report::References& references) {
  std::string text;
  for (const PartView& part : parts) {
    text += part_section(part, report::part_page(part, references));
  }
  return text + blocks(report::guide_memory_table(parts, references.memory_table));
}

// "real", "paced", or both with what that means, or that nothing was.
std::string compute_text(const Result& result) {
  const auto paced =
      static_cast<std::size_t>(std::ranges::count_if(result.cells, &results::CellResult::is_paced));
  if (std::ranges::any_of(result.cells, &results::CellResult::is_paper)) {
    return fmt::format("**{}**; counts, bytes and memory are as on GPUs", paper::kNothingComputed);
  }
  if (paced == 0) return "real: the model does its arithmetic";
  const std::string meaning =
      "layers wait as long as another machine computes; the engine and the traffic are real";
  if (paced == result.cells.size()) return "**paced**: " + meaning;
  return fmt::format("**paced** in {} of {} rows ({}), real in the others", paced,
                     result.cells.size(), meaning);
}

std::string times_text(const Result& result) {
  const summary::TimedSteps timed(result.cells);
  return timed.steps.empty() ? "none" : timed.text() + " in each row that has times";
}

std::string link_facts(const Context& context) {
  std::vector<std::string> links;
  for (const auto& [name, link] : context.links) {
    if (!link.measured_payload_bits_per_s) continue;
    links.push_back(fmt::format("{}: {}", name, format_rate(*link.measured_payload_bits_per_s)));
  }
  if (links.empty()) return "";
  return fmt::format("payload measured before the run: {}", fmt::join(links, "; "));
}

std::string written_text(const Context& context, const char* field) {
  if (!context.written.is_object() || !context.written.contains(field)) return "";
  const nlohmann::json& value = context.written.at(field);
  if (value.is_null()) return "";
  if (!value.is_array()) return text::plain_text(value);
  std::vector<std::string> words;
  for (const nlohmann::json& word : value) words.push_back(text::plain_text(word));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string machine_text(const Context& context) {
  const std::string cpu = written_text(context, "cpu_model");
  const std::string cpus = written_text(context, "cpus");
  const std::string gpu = written_text(context, "gpu");
  std::string text = cpu.empty() ? "unknown CPU" : cpu;
  if (!cpus.empty()) text += fmt::format(", {} CPUs", cpus);
  return gpu.empty() ? text : text + ", " + gpu;
}

std::string code_text(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

std::string how_section(const Result& result, const std::string& raw_directory) {
  const Context& context = result.context;
  std::string text = facts({
      {"Ran", report::plan_line(result)},
      {"Compute", compute_text(result)},
      {"Times", times_text(result)},
      {"Machine", machine_text(context)},
      {"Kernel", written_text(context, "kernel")},
      {"Date", written_text(context, "start_time")},
      {"Program",
       fmt::format("gradsync {}, commit {}, {}", context.gradsync.value_or("unknown"),
                   context.commit.value_or("unknown"), context.build_type.value_or("unknown"))},
      {"torch", fmt::format("{} with {}", context.torch.value_or("unknown"),
                            context.backend.value_or("unknown"))},
      {"Cores", written_text(context, "pinning")},
      {"Links", link_facts(context)},
      {"Load before and after",
       [&] {
         const std::string before = written_text(context, "load_1min");
         const std::string after = written_text(context, "load_after");
         return before.empty() || after.empty() ? before + after : before + " and " + after;
       }()},
      {"Command", code_text(written_text(context, "command_line"))},
      {"Raw results", code_text(raw_directory)},
  });
  std::vector<std::string> warnings;
  if (!context.timing_valid) {
    warnings.push_back(
        fmt::format("Timing is not valid: {}; no times are shown.", context.timing_reason));
  }
  for (const std::string& warning : context.warnings) warnings.push_back("Warning: " + warning);
  return text + list(warnings);
}

}  // namespace

std::string run_page(const Result& result, const report::References& references,
                     const std::string& raw_directory) {
  const std::string plan = summary::name_of_plan(result.plan).value_or("unknown");
  const std::vector<PartView> parts = summary::parts_of(result);
  const std::vector<GuideClaim> claims = summary::guide_claims(parts);
  const std::string date = written_text(result.context, "start_time").substr(0, 10);
  Page page{.title = "gradsync: " + plan,
            .kicker = fmt::format("gradsync, plan {}{}", plan, date.empty() ? "" : ", " + date),
            .answer = answer_of(result, claims),
            .lead = element("p", lead_of(claims), css_class("lead")) + "\n",
            .sections = {}};
  page.sections = {{"numbers", "The numbers", numbers_section(parts, references)},
                   {"claims", "The guide’s claims", claims_section(claims)},
                   {"how", "What was measured where", how_section(result, raw_directory)}};
  return to_html(page);
}

}  // namespace gradsync::html
