#include "harness/report/part_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "harness/base/units.h"
#include "harness/paper/words.h"
#include "harness/report/findings.h"
#include "harness/report/tables.h"
#include "harness/summary/plan_source.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using results::Context;
using results::Result;
using summary::CellView;
using summary::PartView;

namespace {

// The parameters that all cells of the part share, as far as they matter to its reader.
std::string shared_parameters(const PartView& part) {
  std::vector<std::string> names = {"model", "wrapper", "accumulation_steps"};
  if (!part.is_paced) names.insert(names.end(), {"micro_batch_size", "sequence_length", "lengths"});
  std::vector<std::string> shared;
  for (const std::string& name : names) {
    const auto& cell = part.cells.front().cell;
    if (part.varies(name) || !cell.has(name)) continue;
    shared.push_back(name + " " + text::plain_text(cell.value(name)));
  }
  return fmt::format("{}", fmt::join(shared, ", "));
}

// Bold, never italics: a paced number must not be mistaken for a computed one.
std::string compute_line(const PartView& part) {
  const bool ddp = std::ranges::all_of(
      part.cells, [](const CellResult& cell) { return cell.cell.wrapper() == "ddp"; });
  const std::string engine = ddp ? ", real DDP engine" : "";
  if (part.cells.front().is_paper()) {
    return fmt::format("**{}**{}.", paper::kNothingComputed, engine);
  }
  if (!part.is_paced) return "Real compute" + engine + ".";
  const bool mixed = !std::ranges::all_of(part.cells, &CellView::is_paced);
  if (mixed)
    return "**Paced compute** in some rows, as their model says, real in others" + engine + ".";
  std::string text = "**Paced compute**" + engine + ", real traffic on a shaped link";
  const bool twin = std::ranges::any_of(
      part.cells, [](const CellResult& cell) { return cell.cell.model() == "paced_bert_base_t4"; });
  return text + (twin ? "; calibrated to the published table." : ".");
}

// What the rows of a table about memory share beyond that.
std::string shared_memory_terms(const PartView& part) {
  const CellView& first = part.cells.front();
  std::string text;
  if (!part.several_topologies) text += first.name.topology.text() + ", ";
  if (!part.varies("wrapper") && !part.varies("reshard_after_forward")) {
    text += first.name.sharding + ", ";
  }
  const auto budget = first.cell.memory_budget_bytes();
  if (!part.varies("memory_budget_bytes") && budget) {
    text += "budget of a rank " + format_bytes(*budget) + ", ";
  }
  return text;
}

}  // namespace

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
  std::string text = fmt::format("plan {}: {} x {} x {}, interleaved, seed {}",
                                 summary::name_of_plan(result.plan).value_or("unknown"),
                                 text::counted(strategies.size(), "strategy", "strategies"),
                                 text::counted(topologies.size(), "topology", "topologies"),
                                 text::counted(launches, "launch", "launches"),
                                 seed ? std::to_string(*seed) : "unknown");
  if (parts.size() > 1) text += fmt::format(", {} parts", parts.size());
  return text;
}

std::vector<std::string> head_lines(const Result& result) {
  const Context& context = result.context;
  std::vector<std::string> lines{fmt::format(
      "gradsync {} ({} {}) torch {} {} | {}", context.gradsync.value_or("unknown"),
      context.commit.value_or("unknown"), context.build_type.value_or("unknown"),
      context.torch.value_or("unknown"), context.backend.value_or("unknown"), plan_line(result))};
  if (!context.timing_valid) {
    lines.push_back(
        fmt::format("warn: timing is not valid: {}; no times are printed", context.timing_reason));
  }
  for (const std::string& warning : context.warnings) lines.push_back("warn: " + warning);
  return lines;
}

PartPage part_page(const PartView& part, const References& references) {
  const bool about_memory = part.is_about_memory;
  PartPage page;
  page.name = part.name;
  page.about = part.about;
  page.terms = {compute_line(part),
                (about_memory ? shared_memory_terms(part) : "") + shared_parameters(part)};
  page.table = about_memory ? memory_table(part) : detail_table(part);
  page.notes = notes(part);
  if (!about_memory) {
    text::append(page.more, spread_table(part));
    text::append(page.more, attribution_table(part));
  }
  text::append(page.more, front_tables(part));
  text::append(page.more, guide_table(part, references.slowdown_table));
  const auto say = [&](std::vector<std::string> sentences) {
    std::ranges::move(sentences, std::back_inserter(page.findings));
  };
  say(findings(part));
  say(memory_findings(part));
  say(front_findings(part));
  say(law_findings(part));
  say(best_findings(part));
  return page;
}

}  // namespace gradsync::report
