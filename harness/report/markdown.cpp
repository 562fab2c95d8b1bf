#include "harness/report/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/base/units.h"
#include "harness/report/attribution_table.h"
#include "harness/report/detail_table.h"
#include "harness/report/finding.h"
#include "harness/report/guide_memory_table.h"
#include "harness/report/guide_table.h"
#include "harness/report/memory_finding.h"
#include "harness/report/memory_table.h"
#include "harness/report/notes.h"
#include "harness/report/spread_table.h"
#include "harness/summary/best_of_all.h"
#include "harness/summary/part_view.h"
#include "harness/summary/plan_source.h"
#include "harness/summary/step_laws.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using results::Context;
using results::Result;

namespace {

std::string plan_line(const Result& result) {
  std::set<std::string> strategies;
  std::set<std::string> topologies;
  std::set<std::string> parts;
  std::size_t launches = 0;
  for (const CellResult& cell : result.cells) {
    strategies.insert(cell.cell.strategy());
    topologies.insert(cell.cell.topology());
    parts.insert(cell.part);
    launches = std::max(launches, cell.launches);
  }
  const auto& seed = result.context.seed;
  std::string text = fmt::format(
      "plan {}: {} x {} x {}, interleaved, seed {}", name_of_plan(result.plan).value_or("unknown"),
      counted(strategies.size(), "strategy", "strategies"),
      counted(topologies.size(), "topology", "topologies"), counted(launches, "launch", "launches"),
      seed ? std::to_string(*seed) : "unknown");
  if (parts.size() > 1) text += fmt::format(", {} parts", parts.size());
  return text;
}

std::string head(const Result& result) {
  const Context& context = result.context;
  std::string text = fmt::format(
      "gradsync {} ({} {}) torch {} {} | {}\n", context.gradsync.value_or("unknown"),
      context.commit.value_or("unknown"), context.build_type.value_or("unknown"),
      context.torch.value_or("unknown"), context.backend.value_or("unknown"), plan_line(result));
  if (!context.timing_valid) {
    text +=
        fmt::format("warn: timing is not valid: {}; no times are printed\n", context.timing_reason);
  }
  for (const std::string& warning : context.warnings) text += "warn: " + warning + "\n";
  return text;
}

// The parameters that all cells of the part share, as far as they matter to its reader.
std::string shared_parameters(const PartView& part) {
  std::vector<std::string> names = {"model", "wrapper", "accumulation_steps"};
  if (!part.paced()) {
    for (const char* name : {"micro_batch_size", "sequence_length", "lengths"})
      names.emplace_back(name);
  }
  const auto varying = part.varying_parameters();
  std::vector<std::string> shared;
  for (const std::string& name : names) {
    const auto& cell = part.cells.front().cell;
    const bool varies = std::ranges::find(varying, name) != varying.end();
    if (!varies && cell.has(name)) shared.push_back(name + " " + plain_text(cell.value(name)));
  }
  return fmt::format("{}", fmt::join(shared, ", "));
}

// Bold, never italics: nobody may take a paced number for a computed one.
std::string compute_line(const PartView& part) {
  const bool ddp = std::ranges::all_of(
      part.cells, [](const CellResult& cell) { return cell.cell.wrapper() == "ddp"; });
  const std::string engine = ddp ? ", real DDP engine" : "";
  if (!part.paced()) return "Real compute" + engine + ".";
  const bool mixed = !std::ranges::all_of(part.cells, is_paced);
  if (mixed)
    return "**Paced compute** in some rows, as their model says, real in others" + engine + ".";
  std::string text = "**Paced compute**" + engine + ", real traffic on a shaped link";
  const bool twin = std::ranges::any_of(part.cells, [](const CellResult& cell) {
    return cell.cell.model().starts_with("paced_bert_base_t4");
  });
  return text + (twin ? "; calibrated to the published table." : ".");
}

// What the rows of a table about memory share beyond that.
std::string shared_memory_terms(const PartView& part) {
  const auto varying = part.varying_parameters();
  const auto varies = [&](const char* name) {
    return std::find(varying.begin(), varying.end(), name) != varying.end();
  };
  const CellResult& first = part.cells.front();
  std::string text;
  if (!part.several_topologies()) text += topology_label(part.context, first).text() + ", ";
  if (!varies("wrapper") && !varies("reshard_after_forward")) {
    text += sharding_label(first.cell) + ", ";
  }
  const auto budget = first.cell.memory_budget_bytes();
  if (!varies("memory_budget_bytes") && budget) {
    text += "budget of a rank " + format_bytes(*budget) + ", ";
  }
  return text;
}

std::string part_text(const PartView& part, const std::vector<results::Best>& best,
                      const References& references) {
  std::string text;
  if (!part.name.empty()) text += "\n## " + part.name + "\n";
  if (!part.about.empty()) text += "\n" + part.about + "\n";
  const bool about_memory = is_about_memory(part);
  text += "\n" + compute_line(part) + "\n";
  text += (about_memory ? shared_memory_terms(part) : "") + shared_parameters(part) + "\n";
  text += "\n" + (about_memory ? memory_table(part) : detail_table(part));
  if (const std::string lines = notes(part); !lines.empty()) text += "\n" + lines;
  const std::string spread = about_memory ? "" : spread_table(part);
  if (!spread.empty()) text += "\n" + spread;
  const std::string attribution = about_memory ? "" : attribution_table(part);
  if (!attribution.empty()) text += "\n" + attribution;
  const std::string guide = guide_table(part, references.slowdown_table);
  if (!guide.empty()) {
    text += "\nSeconds per batch (one optimizer step), in the guide's layout:\n\n" + guide;
  }
  const std::string found = findings(part) + memory_findings(part) + step_law_sentences(part) +
                            best_sentences(best, part);
  if (!found.empty()) text += "\n" + found;
  return text;
}

}  // namespace

std::string result_markdown(const Result& result, const References& references,
                            const MarkdownOptions& options) {
  std::string text = head(result);
  PartView whole;  // the rows of one published table may be parts of a plan
  for (const PartView& part : parts_of(result)) {
    text += part_text(part, result.best, references);
    whole.context = part.context;
    whole.cells.insert(whole.cells.end(), part.cells.begin(), part.cells.end());
  }
  const std::string guide_memory = guide_memory_table(whole, references.memory_table);
  if (!guide_memory.empty()) text += "\n" + guide_memory;
  if (!options.raw_directory.empty()) text += "\nRaw: " + options.raw_directory + "\n";
  return text;
}

}  // namespace gradsync::report
