#include "harness/report/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/base/units.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using summary::CellView;
using summary::PartView;
using summary::Setting;

namespace {

bool has_peak(const CellResult& cell) {
  return cell.is_ok() && cell.peak_allocated_bytes;
}

bool ran_out(const CellResult& cell) {
  return cell.status == results::Status::Oom;
}

double measured_peak_of(const CellResult& cell) {
  return static_cast<double>(*cell.peak_allocated_bytes);
}

// "At accumulation 16, FULL_SHARD, param_dtype bfloat16": what tells this setting from the others.
std::string place_text(const PartView& part, const CellView& cell) {
  std::string text = fmt::format("At accumulation {}", cell.cell.accumulation_steps());
  if (part.several_topologies) text += ", " + cell.name.topology.text();
  return text + cell.name.varying_text({"accumulation_steps", "wrapper", "memory_budget_bytes"},
                                       summary::Sharding::ByName);
}

// "costs 1.77x [1.70, 1.84] the time of no_sync"; "" without times.
std::string time_clause(const Known<results::StepRatio>& slowdown) {
  if (!slowdown) return "";
  const std::string ratio = text::ratio_text(*slowdown);
  if (!slowdown->ci95) {
    return fmt::format("took {} the time of no_sync, in {},", ratio,
                       text::launches_that_ran(slowdown->launches));
  }
  if (!slowdown->is_clearly_different()) return fmt::format("costs no measurable time ({})", ratio);
  return fmt::format("{} {} the time of no_sync", slowdown->ratio > 1 ? "costs" : "takes", ratio);
}

// "saves 34.6 MiB (298.8 MiB for 333.4 MiB)", or what is true instead.
std::string memory_clause(double each, double none) {
  if (each == none) return fmt::format("peaks at the same {}", format_bytes(each));
  return fmt::format("{} {}{} ({} against {})", each < none ? "saves" : "holds",
                     format_bytes(std::abs(none - each)), each < none ? "" : " more",
                     format_bytes(each), format_bytes(none));
}

std::string both_ran(const CellResult& each, const CellResult& none) {
  const std::string memory = memory_clause(measured_peak_of(each), measured_peak_of(none));
  const std::string time = time_clause(each.slowdown);
  return "sync_each_batch " + (time.empty() ? "" : time + " and ") + memory;
}

std::string out_of_what(const CellResult& cell) {
  const auto budget = cell.cell.memory_budget_bytes();
  std::string text = budget ? "a budget of " + format_bytes(*budget) : "memory";
  if (cell.oom_place) {
    text += fmt::format(" in the {} of micro-batch {}", cell.oom_place->phase,
                        cell.oom_place->micro_batch);
  }
  return text;
}

std::string one_ran_out(const CellResult& out, const CellResult& fits) {
  return fmt::format("{} runs out of {}; {} fits, with a peak of {}", out.cell.strategy(),
                     out_of_what(out), fits.cell.strategy(), format_bytes(measured_peak_of(fits)));
}

std::string sentence(const CellResult& each, const CellResult& none) {
  if (has_peak(each) && has_peak(none)) return both_ran(each, none);
  if (ran_out(none) && has_peak(each)) return one_ran_out(none, each);
  if (ran_out(each) && has_peak(none)) return one_ran_out(each, none);
  if (ran_out(each) && ran_out(none)) return "both run out of " + out_of_what(none);
  return "";
}

}  // namespace

std::vector<std::string> memory_findings(const PartView& part) {
  std::vector<Setting> settings = part.settings;
  std::ranges::stable_sort(settings, {},
                           [](const Setting& setting) { return setting.first().sharding_group; });
  std::vector<std::string> sentences;
  for (const Setting& setting : settings) {
    const CellView& first = setting.first();
    if (first.cell.wrapper() != "fsdp" || first.cell.accumulation_steps() < 2) continue;
    const CellView* each = setting.under("sync_each_batch");
    const CellView* none = setting.under("no_sync");
    if (each == nullptr || none == nullptr) continue;
    const std::string found = sentence(*each, *none);
    if (!found.empty()) sentences.push_back(place_text(part, first) + ", " + found + ".");
  }
  return sentences;
}

}  // namespace gradsync::report
