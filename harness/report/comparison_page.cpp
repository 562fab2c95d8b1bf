#include "harness/report/comparison_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "harness/base/grouped.h"
#include "harness/base/units.h"
#include "harness/paper/words.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"

namespace gradsync::report {

using nlohmann::json;
using results::Parameters;
using summary::ComparedCell;
using summary::ComparedRun;
using summary::ContextDifference;
using summary::EffectOnTimes;
using summary::LonelyCell;
using summary::RunComparison;
using text::Align;

namespace {

constexpr std::size_t kWidestValue = 28;  // of a context; a longer one is cut

std::string run_lines(const char* name, const ComparedRun& run) {
  const auto text = [](const std::optional<std::string>& value) {
    return value.value_or("unknown");
  };
  const results::Context& context = run.context;
  return fmt::format("- {}: {}\n  plan {}, gradsync {} ({} {}), torch {} {}, host {}, {}\n", name,
                     run.directory, run.plan.value_or("null"), text(context.gradsync),
                     text(context.commit), text(context.build_type), text(context.torch),
                     text(context.backend), text(context.host), text(context.start_time));
}

std::string warning_lines(const char* name, const ComparedRun& run) {
  std::string text;
  for (const std::string& warning : run.context.warnings) {
    text += fmt::format("- warn: {}: {}\n", name, warning);
  }
  return text;
}

// What has no effect on times is left out: the JSON has it.
std::string difference_table(const std::vector<ContextDifference>& differences) {
  text::TextTable table(
      {{"differs", Align::Left}, {"A", Align::Left}, {"B", Align::Left}, {"times", Align::Left}});
  bool any = false;
  for (const ContextDifference& difference : differences) {
    if (difference.effect == EffectOnTimes::None) continue;
    any = true;
    table.add_row(
        {difference.field, context_value_text(difference.field, difference.a),
         context_value_text(difference.field, difference.b),
         difference.effect == EffectOnTimes::ForbidsTimes ? "not compared" : "may be in B/A"});
  }
  return any ? table.to_markdown() : "Nothing in their contexts differs that times depend on.\n";
}

std::string part_text(const results::Context& context,
                      const std::vector<const ComparedCell*>& cells) {
  const std::string& name = cells.front()->part;
  const auto any = [&](results::Timing timing) {
    return std::ranges::any_of(
        cells, [timing](const ComparedCell* cell) { return cell->timing == timing; });
  };
  const std::string compute = any(results::Timing::Paper)   ? paper::kNothingComputed
                              : any(results::Timing::Paced) ? "Paced compute"
                                                            : "";
  return (name.empty() ? "" : "\n## " + name + "\n") +
         (compute.empty() ? "\nReal compute.\n" : "\n**" + compute + ".**\n") +
         comparison_tables(context, cells);
}

// What varies over all cells of both runs.
std::vector<std::string> varying_over_all(const RunComparison& comparison) {
  std::vector<const Parameters*> cells;
  for (const ComparedCell& cell : comparison.cells) cells.push_back(&cell.cell);
  for (const auto* list : {&comparison.only_in_a, &comparison.only_in_b}) {
    for (const LonelyCell& cell : *list) cells.push_back(&cell.cell);
  }
  return text::varying_names(cells);
}

// Cells that one run lacks, named by topology and by whatever varies over both runs.
std::string only_in(const char* run, const std::vector<LonelyCell>& cells,
                    const std::vector<std::string>& varying) {
  std::map<std::string, std::vector<std::string>> strategies;
  for (const LonelyCell& cell : cells) {
    std::string place = cell.cell.topology();
    for (const std::string& parameter : varying) {
      place += fmt::format(", {} {}", parameter, text::parameter_text(cell.cell, parameter));
    }
    strategies[place].push_back(text::strategy_label(cell.cell.strategy()));
  }
  std::string text;
  for (const auto& [place, names] : strategies) {
    text += fmt::format("- Only in {}: {}: {}\n", run, place, fmt::join(names, ", "));
  }
  return text;
}

}  // namespace

std::string context_value_text(const std::string& field, const json& value) {
  if (value.is_null()) return "-";
  if (value.is_number() && field.ends_with("bits_per_s")) return format_rate(value.get<double>());
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return text::truncate(text::plain_text(value), kWidestValue);
}

std::string comparison_markdown(const RunComparison& comparison) {
  const ComparedRun& a = comparison.a;
  const ComparedRun& b = comparison.b;
  std::string text = run_lines("A", a) + run_lines("B", b) + warning_lines("A", a) +
                     warning_lines("B", b) + "\n" + difference_table(comparison.differences);
  for (const auto& cells : grouped(comparison.cells, &ComparedCell::part)) {
    text += part_text(a.context, cells);
  }
  if (comparison.cells.empty()) text += "\nThe two runs have no cell in common.\n";
  const auto varying = varying_over_all(comparison);
  const std::string lonely =
      only_in("A", comparison.only_in_a, varying) + only_in("B", comparison.only_in_b, varying);
  return text + (lonely.empty() ? "" : "\n" + lonely);
}

}  // namespace gradsync::report
