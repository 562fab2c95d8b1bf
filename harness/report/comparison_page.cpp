#include "harness/report/comparison_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "harness/base/units.h"
#include "harness/report/comparison_tables.h"
#include "harness/report/labels.h"
#include "harness/report/part_view.h"
#include "harness/report/text_table.h"
#include "harness/report/text_width.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

constexpr std::size_t kWidestValue = 28;  // of a context; a longer one is cut

std::string field(const json& context, const char* name) {
  const json value = context.value(name, json());
  return value.is_null() ? "unknown" : plain_text(value);
}

std::string run_lines(const char* name, const json& run) {
  const json& context = run["context"];
  return fmt::format(
      "- {}: {}\n  plan {}, gradsync {} ({} {}), torch {} {}, host {}, {}\n", name,
      run["directory"].get<std::string>(), plain_text(run["plan"]), field(context, "gradsync"),
      field(context, "commit"), field(context, "build_type"), field(context, "torch"),
      field(context, "backend"), field(context, "host"), field(context, "start_time"));
}

std::string warning_lines(const char* name, const json& run) {
  std::string text;
  for (const json& warning : run["context"].value("warnings", json::array())) {
    text += fmt::format("- warn: {}: {}\n", name, plain_text(warning));
  }
  return text;
}

// What has no effect on times is left out: the JSON has it.
std::string difference_table(const json& differences) {
  TextTable table(
      {{"differs", Align::Left}, {"A", Align::Left}, {"B", Align::Left}, {"times", Align::Left}});
  bool any = false;
  for (const json& difference : differences) {
    if (difference["effect"] == "none") continue;
    any = true;
    const std::string name = difference["field"];
    table.add_row({name, context_value_text(name, difference["a"]),
                   context_value_text(name, difference["b"]),
                   difference["effect"] == "forbids_times" ? "not compared" : "may be in B/A"});
  }
  return any ? table.to_markdown() : "Nothing in their contexts differs that times depend on.\n";
}

std::string part_text(const PartView& part) {
  std::string text = part.name.empty() ? "" : "\n## " + part.name + "\n";
  text += part.paced() ? "\n**Paced compute.**\n" : "\nReal compute.\n";
  return text + comparison_tables(part);
}

// The parts as `a` has them, their cells being those of the comparison.
std::vector<PartView> shared_parts(const json& comparison) {
  return parts_of(
      {{"cells", comparison["cells"]}, {"context", comparison["a"]["context"]}, {"plan", nullptr}});
}

// Cells that one run lacks, named by topology and by whatever varies over both runs.
std::string only_in(const json& comparison, const char* run, const char* list) {
  PartView all;
  for (const char* name : {"cells", "only_in_a", "only_in_b"}) {
    for (const json& cell : comparison[name]) all.cells.push_back(cell);
  }
  std::map<std::string, std::vector<std::string>> strategies;
  for (const json& cell : comparison[list]) {
    std::string place = cell["cell"].value("topology", "");
    for (const std::string& parameter : all.varying_parameters()) {
      place += fmt::format(", {} {}", parameter, parameter_text(cell["cell"], parameter));
    }
    strategies[place].push_back(strategy_label(cell["cell"].value("strategy", "")));
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
  return truncate(plain_text(value), kWidestValue);
}

std::string comparison_markdown(const json& comparison) {
  const json& a = comparison["a"];
  const json& b = comparison["b"];
  std::string text = run_lines("A", a) + run_lines("B", b) + warning_lines("A", a) +
                     warning_lines("B", b) + "\n" + difference_table(comparison["differences"]);
  for (const PartView& part : shared_parts(comparison)) text += part_text(part);
  if (comparison["cells"].empty()) text += "\nThe two runs have no cell in common.\n";
  const std::string lonely =
      only_in(comparison, "A", "only_in_a") + only_in(comparison, "B", "only_in_b");
  return text + (lonely.empty() ? "" : "\n" + lonely);
}

}  // namespace gradsync::report
