
#include <fmt/format.h>

#include "harness/report/html/bars.h"
#include "harness/report/html/html.h"
#include "harness/report/html/page.h"
#include "harness/text/labels.h"
#include "harness/watch/judge/wastes/waste_words.h"
#include "harness/watch/tell/page_parts.h"
#include "harness/watch/tell/pages.h"

namespace gradsync::watch {

using html::Tone;

namespace {

// What a verdict comes to, in words and colour.
struct Standing {
  Tone tone;
  const char* words;
};
Standing standing_of(const Verdict& verdict) {
  if (verdict.fails) return {Tone::Bad, "to be changed"};
  switch (verdict.kind) {
    case VerdictKind::OncePerStep:
    case VerdictKind::ReplicasOncePerStep:
    case VerdictKind::OneProcess:
      return {Tone::Good, "in order"};
    case VerdictKind::NoSteps:
    case VerdictKind::NotRecognised:
    case VerdictKind::NotInFile:
      return {Tone::None, "not recognised"};
    default:
      return {Tone::Unsure, "yours to judge"};
  }
}

// The first verdict says what the account comes to, where no verdict fails.
Standing standing_of_first(const Watched& watched) {
  const auto& account = watched.account;
  if (has_excess(watched) || !account) return standing_of(watched.verdicts.front());
  if (is_off(*account)) return {Tone::Bad, "to be changed"};
  if (!account->lost.empty()) return {Tone::None, "not recognised"};
  return standing_of(watched.verdicts.front());
}

std::string sentence_of(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() -= 'a' - 'A';
  return text + ".";
}

std::string change_box(const Change& change) {
  const std::string where =
      change.file.empty()
          ? std::string()
          : html::element("code", html::escaped(change.line > 0
                                                    ? fmt::format("{}:{}", change.file, change.line)
                                                    : change.file)) +
                "<br>";
  const std::string inside =
      change.inside.empty() ? "" : "which runs " + html::escaped(change.inside) + "<br>";
  return html::element("div",
                       html::element("strong", "What to change") + "<br>" + where + inside +
                           html::inline_marks(change.what),
                       html::css_class("change")) +
         "\n";
}

// Returns the grounds of a verdict or a waste, and the change that mends it.
template <typename Said>
std::string grounds_of(const Said& said) {
  std::string text;
  if (!said.why.empty()) text += html::element("p", "Why: " + html::inline_marks(said.why)) + "\n";
  return said.change ? text + change_box(*said.change) : text;
}

std::string seen_of(const Watched& watched) {
  const std::string seen = seen_sentence(watched);
  return seen.empty() ? "" : html::element("p", html::escaped(sentence_of(seen))) + "\n";
}

std::string lead_of(const Watched& watched) {
  const Verdict& first = watched.verdicts.front();
  const Standing standing = standing_of_first(watched);
  return html::element("p", html::badge(standing.tone, standing.words)) + "\n" +
         html::element("p", html::escaped(cast_line(watched)) + ".", html::css_class("lead")) +
         "\n" + grounds_of(first) + seen_of(watched);
}

// Bytes per step of each operation, now and where nothing were sent in vain.
std::string byte_pictures(const TypicalStep& typical, bool knows_enough) {
  std::vector<html::Bars> pictures;
  for (const auto& [op, now] : typical.collectives) {
    html::Bars picture{.title = op, .bars = {}, .limit = {}};
    const auto add = [&](const char* label, const OpSum& sum, html::Hue hue) {
      if (!sum.bytes) return;
      picture.bars.push_back(
          {.label = label,
           .value =
               fmt::format("{}, {}", bytes_text(sum.bytes),
                           text::counted(static_cast<std::size_t>(sum.count), "call", "calls")),
           .length = static_cast<double>(*sum.bytes),
           .hue = hue,
           .interval = {}});
    };
    const bool in_excess = typical.excess.contains(op);
    add("now", now, knows_enough && in_excess ? html::Hue::SyncsEach : html::Hue::SyncsOnce);
    if (knows_enough) add("enough", sum_of(typical.ideal, op), html::Hue::SyncsOnce);
    if (!picture.bars.empty()) pictures.push_back(std::move(picture));
  }
  const double full = html::longest(pictures);
  if (full <= 0) return "";
  std::string text;
  for (const html::Bars& picture : pictures) {
    text += html::element("h4", html::escaped(picture.title)) + "\n" + html::bars(picture, full);
  }
  return html::figure("Bytes that a rank gives to each operation in a step.", text);
}

std::string time_picture(const TypicalStep& typical) {
  if (!typical.step_s || !typical.excess_s || *typical.step_s <= 0) return "";
  const auto seconds = [](double value_s) { return fmt::format("{:.3f} s", value_s); };
  const double without_s = *typical.step_s - *typical.excess_s;
  const html::Bars picture{.title = "seconds per step",
                           .bars = {{.label = "now",
                                     .value = seconds(*typical.step_s),
                                     .length = *typical.step_s,
                                     .hue = html::Hue::SyncsEach,
                                     .interval = {}},
                                    {.label = "without waiting for the excess",
                                     .value = seconds(without_s),
                                     .length = without_s,
                                     .hue = html::Hue::SyncsOnce,
                                     .interval = {}}},
                           .limit = {}};
  return html::figure("Seconds per step; the second is computed from the first, not measured.",
                      html::bars(picture, *typical.step_s));
}

std::string step_section(const Watched& watched) {
  if (!watched.typical) return "";
  const TypicalStep& typical = *watched.typical;
  const bool knows_enough = knows_what_is_enough(watched);
  const auto table = step_table(typical, knows_enough);
  std::string text =
      table ? html::table(*table) : html::element("p", "A step communicates nothing.") + "\n";
  const std::string axes = axes_sentence(typical.axes);
  if (!axes.empty()) text += html::element("p", html::escaped(sentence_of(axes))) + "\n";
  const std::string times = times_sentence(typical);
  if (!times.empty()) text += html::element("p", html::escaped(times) + ".") + "\n";
  text += html::list(policy_texts(typical.policies));
  const std::string gpu = gpu_sentence(watched);
  if (!gpu.empty()) text += html::element("p", html::escaped(sentence_of(gpu))) + "\n";
  const std::string peak = peak_sentence(watched);
  if (!peak.empty()) text += html::element("p", html::escaped(sentence_of(peak))) + "\n";
  text += byte_pictures(typical, knows_enough);
  return typical.excess.empty() ? text : text + time_picture(typical);
}

std::string other_verdicts(const Watched& watched) {
  std::string text;
  for (std::size_t i = 1; i < watched.verdicts.size(); ++i) {
    const Verdict& verdict = watched.verdicts[i];
    const Standing standing = standing_of(verdict);
    text += "<div class=\"claim\">\n" + html::badge(standing.tone, standing.words) +
            html::element("h3", html::inline_marks(sentence_of(verdict.sentence))) + "\n" +
            grounds_of(verdict) + "</div>\n";
  }
  return text;
}

std::string wastes(const Watched& watched) {
  const auto step_s = watched.typical ? watched.typical->step_s : std::nullopt;
  std::string text;
  for (const Waste& waste : watched.wastes) {
    text += "<div class=\"claim\">\n" + html::badge(Tone::Unsure, "a waste") +
            html::element("h3", html::inline_marks(sentence_of(waste.sentence))) + "\n" +
            html::element("p", html::escaped(sentence_of(saving_text(waste, step_s)))) + "\n" +
            grounds_of(waste) + "</div>\n";
  }
  return text;
}

std::string rank_table(const Watched& watched) {
  text::TextTable table({{"rank"},
                         {"process"},
                         {"steps"},
                         {"skipped"},
                         {"evaluation forwards"},
                         {"collectives in all"},
                         {"tensors at most, bytes"}});
  for (const WatchedRank& rank : watched.ranks) {
    table.add_row({rank.rank < 0 ? "-" : std::to_string(rank.rank), std::to_string(rank.pid),
                   std::to_string(rank.steps), std::to_string(rank.skipped_steps),
                   std::to_string(rank.evaluation_forwards),
                   std::to_string(total_count(rank.collectives)),
                   rank.peak.bytes ? std::to_string(*rank.peak.bytes) : "-"});
  }
  return watched.ranks.empty() ? "" : html::table(table);
}

std::vector<std::string> flag_texts(const Watched& watched) {
  std::vector<std::string> texts;
  for (const std::string& kind : step_kind_texts(watched.kinds)) texts.push_back(kind);
  for (const Flag& flag : watched.flags) texts.push_back(flag_text(flag));
  return texts;
}

std::string how_section(const Watched& watched, const std::string& name) {
  return html::facts({{"Job", "`" + name + "`"},
                      {"How",
                       "watched from within its processes, unchanged: each collective, "
                       "forward, backward and optimizer step was recorded"},
                      {"Numbers",
                       "of the lowest rank, where ranks agree; counts and bytes are "
                       "exact, seconds are medians"}}) +
         rank_table(watched) + html::list(flag_texts(watched)) + html::list(watched.faults);
}

}  // namespace

std::string watch_html(const Watched& watched, const std::string& name) {
  html::Page page{.title = "gradsync watch: " + name,
                  .kicker = "gradsync watch, " + name,
                  .answer = sentence_of(watched.verdicts.front().sentence),
                  .lead = lead_of(watched),
                  .sections = {}};
  page.sections = {{"step", "A step of this job", step_section(watched)},
                   {"also", "Also", other_verdicts(watched) + wastes(watched)},
                   {"how", "What was seen, and how", how_section(watched, name)}};
  return html::to_html(page);
}

}  // namespace gradsync::watch
