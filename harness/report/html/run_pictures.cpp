#include <fmt/format.h>

#include <set>
#include <vector>

#include "harness/base/units.h"
#include "harness/plan/strategies.h"
#include "harness/report/html/bars.h"
#include "harness/report/html/html.h"
#include "harness/report/html/run_page.h"
#include "harness/report/tables.h"
#include "harness/text/labels.h"

namespace gradsync::html {

using results::CellResult;
using summary::CellView;
using summary::PartView;

namespace {

// More groups than this are folded away: their table has them all.
constexpr std::size_t kMostGroupsShown = 12;

// A budget is a line of the picture.
std::string place_of(const CellView& cell) {
  return cell.name.topology.text() +
         cell.name.varying_text({"memory_budget_bytes"}, summary::Sharding::ByName);
}

Hue hue_of(const CellResult& cell) {
  return plan::syncs_every_micro_batch(cell.cell.wrapper(), cell.cell.strategy()) ? Hue::SyncsEach
                                                                                  : Hue::SyncsOnce;
}

// "2.071 s [2.060, 2.082]"
std::string step_text(const results::StepTimes& step_s, int decimals) {
  std::string text = text::seconds_text(step_s.mean, decimals) + " s";
  if (!step_s.ci95) return text;
  return text + fmt::format(" [{}, {}]", text::seconds_text(step_s.ci95->lo, decimals),
                            text::seconds_text(step_s.ci95->hi, decimals));
}

Bar step_bar(const CellView& cell, int decimals) {
  return {.label = cell.name.strategy,
          .value = step_text(*cell.step_s, decimals),
          .length = cell.step_s->mean,
          .hue = hue_of(cell),
          .interval = cell.step_s->ci95};
}

bool has_memory(const CellResult& cell) {
  return cell.is_ok() ? static_cast<bool>(cell.peak_allocated_bytes)
                      : cell.status == results::Status::Oom;
}

Bar memory_bar(const CellView& cell) {
  const std::string label = cell.name.strategy;
  if (cell.is_ok()) {
    const auto bytes = static_cast<double>(*cell.peak_allocated_bytes);
    return {.label = label,
            .value = format_bytes(bytes),
            .length = bytes,
            .hue = hue_of(cell),
            .interval = {}};
  }
  return {.label = label,
          .value = report::verdict_text(cell),
          .length = cell.cell.memory_budget_bytes().value_or(0),
          .hue = hue_of(cell),
          .interval = {},
          .is_outline = true};
}

// Each group under its place, all on one scale.
std::string pictures_of(const std::vector<Bars>& groups) {
  const double full = longest(groups);
  if (full <= 0) return "";
  std::string text;
  for (const Bars& group : groups) {
    text += element("h4", escaped(group.title)) + "\n" + bars(group, full);
  }
  return groups.size() > kMostGroupsShown ? folded(fmt::format("{} pictures", groups.size()), text)
                                          : text;
}

template <typename Has, typename Make>
std::vector<Bars> bars_of(const PartView& part, const Has& has, const Make& make) {
  std::vector<Bars> pictures;
  for (const summary::Setting& setting : part.settings) {
    Bars picture{.title = place_of(setting.first()), .bars = {}, .limit = {}};
    for (const CellView* cell : setting.cells) {
      if (has(*cell)) picture.bars.push_back(make(*cell));
    }
    picture.limit = setting.first().cell.memory_budget_bytes();
    if (!picture.bars.empty()) pictures.push_back(std::move(picture));
  }
  return pictures;
}

bool has_hues(const std::vector<Bars>& pictures) {
  for (const Bars& picture : pictures) {
    for (const Bar& bar : picture.bars) {
      if (bar.hue == Hue::SyncsEach) return true;
    }
  }
  return false;
}

std::string figure_of(const std::string& what, const std::vector<Bars>& pictures) {
  const std::string key = has_hues(pictures) ? "<br>" + hue_key() : "";
  return figure(escaped(what) + key, pictures_of(pictures));
}

}  // namespace

std::string step_pictures(const PartView& part) {
  std::vector<Bars> pictures = bars_of(
      part, [](const CellResult& cell) { return cell.is_timed(); },
      [&](const CellView& cell) { return step_bar(cell, part.decimals); });
  bool with_intervals = false;
  for (Bars& picture : pictures) {
    picture.limit.reset();  // a budget is no time
    for (const Bar& bar : picture.bars) with_intervals |= bar.interval.has_value();
  }
  return figure_of(with_intervals ? "Seconds per step, with 95 % intervals."
                                  : "Seconds per step; too few launches for intervals.",
                   pictures);
}

std::string memory_pictures(const PartView& part) {
  const std::vector<Bars> pictures = bars_of(part, has_memory, memory_bar);
  std::set<std::string> values;
  bool has_limit = false;
  std::size_t bars = 0;
  for (const Bars& picture : pictures) {
    has_limit |= picture.limit.has_value();
    bars += picture.bars.size();
    for (const Bar& bar : picture.bars) values.insert(bar.value);
  }
  if (values.size() == 1 && bars > 1 && !has_limit) {
    return element("p", fmt::format("A rank's tensors peak at {} in every row.",
                                    escaped(*values.begin()))) +
           "\n";
  }
  return figure_of(has_limit ? "Peak of a rank's tensors; the dashed line is the budget."
                             : "Peak of a rank's tensors.",
                   pictures);
}

}  // namespace gradsync::html
