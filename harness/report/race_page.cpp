#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/base/units.h"
#include "harness/report/search_page.h"
#include "harness/summary/pareto_front.h"
#include "harness/text/blocks.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::Parameters;
using summary::Contender;
using summary::Race;
using summary::Standing;
using text::Align;

namespace {

using Names = std::vector<std::string>;

Names varying_over(const std::vector<Contender>& contenders) {
  std::vector<const Parameters*> cells;
  for (const Contender& one : contenders) cells.push_back(&one.cell);
  return text::varying_names(cells);
}

Names name_of(const Parameters& cell, const Names& varying) {
  Names name{cell.topology(), text::strategy_label(cell.strategy())};
  for (const std::string& parameter : varying) {
    name.push_back(text::parameter_text(cell, parameter));
  }
  return name;
}

std::string standing_text(const Contender& one) {
  switch (one.standing) {
    case Standing::TooLarge:
      return "does not fit, by the formula";
    case Standing::OutOfMemory:
      return "oom";
    case Standing::Failed:
      return "failed";
    case Standing::Untimed:
      return "no time";
    case Standing::Slower:
      return "slower";
    case Standing::Close:
      return "not clearly slower";
    case Standing::Fastest:
      return "fastest";
    case Standing::Racing:
      break;
  }
  return "still racing";  // where the race was interrupted
}

text::TextTable table_of(const Race& race, const Names& varying) {
  std::vector<text::TextTable::Column> columns{{"topology", Align::Left},
                                               {"strategy", Align::Left}};
  for (const std::string& name : varying) columns.push_back({name, Align::Right});
  for (const char* head : {"predicted", "peak", "launches", "s/step", "x fastest"}) {
    columns.push_back({head, Align::Right});
  }
  columns.push_back({"result", Align::Left});
  text::TextTable table(columns);
  std::vector<double> means;
  for (const Contender& one : race.contenders) {
    if (one.step_s) means.push_back(*one.step_s);
  }
  const int decimals = text::decimals_for(means);
  for (const Contender& one : race.contenders) {
    Names row = name_of(one.cell, varying);
    row.push_back(text::text_or_dash(one.predicted_peak_bytes, text::bytes_text));
    row.push_back(text::text_or_dash(one.peak_allocated_bytes, text::bytes_text));
    row.push_back(std::to_string(one.launches));
    row.push_back(text::text_or_dash(
        one.step_s, [&](double step_s) { return text::seconds_text(step_s, decimals); }));
    row.push_back(text::text_or_dash(one.vs_fastest, text::ratio_text));
    row.push_back(standing_text(one));
    table.add_row(std::move(row));
  }
  return table;
}

// "In 480.0 MiB, accumulation 8": the work that its ways share.
std::string place_of(const Parameters& cell, const Names& varying) {
  const auto budget = cell.memory_budget_bytes();
  std::string text = budget ? fmt::format("In {}", format_bytes(*budget)) : "Without a budget";
  text += fmt::format(", accumulation {}, {}", cell.accumulation_steps(), cell.topology());
  for (const std::string& name : varying) {
    const bool is_named = name == "accumulation_steps" || name == "memory_budget_bytes";
    if (!is_named && !summary::levers().contains(name)) {
      text += fmt::format(", {} {}", name, text::parameter_text(cell, name));
    }
  }
  return text;
}

// What tells the way from others of its work.
std::string way_of(const Parameters& cell, const Names& varying) {
  Names words{text::strategy_label(cell.strategy())};
  for (const std::string& name : varying) {
    const std::string value = text::parameter_text(cell, name);
    if (summary::levers().contains(name) && value != "-") {
      words.push_back(fmt::format("{} {}", name, value));
    }
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::size_t count_of(const std::vector<Contender*>& work, Standing standing) {
  return static_cast<std::size_t>(std::ranges::count(work, standing, &Contender::standing));
}

std::string sentence(const std::vector<Contender*>& work, const Names& varying) {
  const std::string place = place_of(work.front()->cell, varying);
  const auto fastest = std::ranges::find(work, Standing::Fastest, &Contender::standing);
  if (fastest == work.end()) {
    return fmt::format("{}: none of {} ways fits and has a time.", place, work.size());
  }
  std::size_t trials = 0;
  for (const Contender* one : work) trials += one->launches;
  return fmt::format(
      "{}: the fastest is {} ({} ways: {} too large, {} slower, {} not clearly slower, {} without "
      "a "
      "time; {} trials).",
      place, way_of((*fastest)->cell, varying), work.size(),
      count_of(work, Standing::TooLarge) + count_of(work, Standing::OutOfMemory),
      count_of(work, Standing::Slower), count_of(work, Standing::Close),
      count_of(work, Standing::Untimed), trials);
}

}  // namespace

std::string race_markdown(Race race, const std::string& raw_directory) {
  const Names varying = varying_over(race.contenders);
  text::Bullets reasons;
  for (const Contender& one : race.contenders) {
    if (one.reason.empty() || one.standing == Standing::TooLarge) continue;
    reasons.items.push_back(
        fmt::format("{}: {}", fmt::join(name_of(one.cell, varying), ", "), one.reason));
  }
  text::Sentences sentences;
  for (const auto& work : summary::works_of(race.contenders)) {
    sentences.lines.push_back(sentence(work, varying));
  }
  return text::to_markdown({text::Prose{fmt::format("plan {}: the fastest that fits\n", race.plan)},
                            table_of(race, varying), reasons, sentences,
                            text::Sentences{{"Raw: " + raw_directory}}});
}

}  // namespace gradsync::report
