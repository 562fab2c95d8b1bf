#include "harness/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/plan/cell.h"
#include "harness/stats/sample.h"
#include "harness/stats/student.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"

namespace gradsync::report {

using results::CellResult;
using results::Parameters;
using summary::CellView;
using summary::PartView;
using summary::Setting;
using text::Align;
using text::Prose;
using text::TextTable;

namespace {

constexpr std::array kStrategies = {"baseline", "no_sync_improper", "no_sync", "accumulate"};

// How close the twin came to the published table, over all cells that both have.
struct Agreement {
  std::vector<double> relative_errors;
  int inside = 0;
  int judged = 0;
};

// Returns whether the cell does what the guide's runs did, whatever it trains: 4 micro-batches a
// step and DDP as it comes, which are the defaults.
bool trains_as_the_guide(const Parameters& cell) {
  return std::ranges::all_of(plan::axes(), [&](const plan::Axis& axis) {
    return axis.is_work || !cell.has(axis.name) || cell.value(axis.name) == plan::default_of(axis);
  });
}

// The row of the published table that belongs beside a cell.
struct PublishedRow {
  std::string name;  // "": none does
  bool is_re_enacted =
      false;  // the cell is the twin of the machines, so that the two can be compared
};

// The guide's training itself, on whatever machine: its model, batch and lengths.
bool is_the_guides_set_up(const Parameters& cell) {
  return cell.model() == "bert_base" && cell.micro_batch_size() == 16 && cell.lengths() == "mrpc";
}

PublishedRow published_row(const CellView& cell) {
  if (!trains_as_the_guide(cell.cell)) return {};
  if (is_the_guides_set_up(cell.cell)) {
    const int nodes = cell.name.topology.nodes;
    return {nodes > 1 ? "multi_node" : nodes == 1 ? "single_node" : "", false};
  }
  if (cell.cell.model() != "paced_bert_base_t4") return {};
  const std::string topology = cell.cell.topology();
  if (topology == "t4_2x1") return {"multi_node", true};
  return {topology == "t4_1x2" ? "single_node" : "", true};
}

// "2.00±0.01s", "0.41±0.015s": the digits of the guide.
std::string published_text(const std::vector<double>& mean_and_sd) {
  const double sd = mean_and_sd.at(1);
  const double hundredths = sd * 100;
  const bool two_decimals = std::abs(hundredths - std::round(hundredths)) < 1e-9;
  return fmt::format("{:.2f}±{:.{}f}s", mean_and_sd.front(), sd, two_decimals ? 2 : 3);
}

std::string measured_text(const CellResult* cell, int decimals) {
  if (!cell) return "-";
  if (!cell->is_ok()) return results::to_string(cell->status);
  if (!cell->step_s) return "-";
  const std::string mean = text::seconds_text(cell->step_s->mean, decimals);
  const auto& sd = cell->step_s->sd;
  return sd ? mean + "±" + text::seconds_text(*sd, decimals) + "s" : mean + "s";
}

std::string judge(const CellResult* cell, double published_mean, const std::vector<double>& runs,
                  Agreement& agreement) {
  const auto interval = stats::student_interval(runs);
  if (!interval) return "-";
  std::string range = fmt::format("[{:.2f}, {:.2f}]", interval->lo, interval->hi);
  if (!cell || !cell->is_timed()) return range;
  const double mean = cell->step_s->mean;
  agreement.relative_errors.push_back(std::abs(mean - published_mean) / published_mean);
  ++agreement.judged;
  agreement.inside += interval->contains(mean) ? 1 : 0;
  return range + (interval->contains(mean) ? " inside" : " OUTSIDE");
}

void add_published(TextTable& table, const Setting& setting,
                   const std::optional<PublishedSlowdowns>& reference, Agreement& agreement) {
  if (!reference) return;
  const auto [name, is_re_enacted] = published_row(setting.first());
  const auto row = reference->published.find(name);
  if (row == reference->published.end()) return;
  std::vector<std::string> published = {is_re_enacted ? "published" : "published, of two T4"};
  std::vector<std::string> inside = {"95 % of its runs"};
  for (const char* strategy : kStrategies) {
    const std::vector<double>& value = row->second.at(strategy);
    published.push_back(published_text(value));
    if (!is_re_enacted) continue;
    inside.push_back(judge(setting.under(strategy), value.front(),
                           reference->raw_runs.at(name).at(strategy), agreement));
  }
  table.add_row(published);
  if (is_re_enacted) table.add_row(inside);
}

std::string row_label(const CellView& cell, bool say_more) {
  const text::TopologyLabel& topology = cell.name.topology;
  std::string label = topology.nodes > 1    ? "Multi-Node"
                      : topology.nodes == 1 ? "Single Node"
                                            : topology.shape;
  if (!say_more) return label;
  label += " (" + topology.text();
  for (const auto& [name, text] : cell.name.varying) label += ", " + text;
  return label + ")";
}

// Rows need more than "Multi-Node" where two of them would read alike.
bool labels_collide(const std::vector<Setting>& settings) {
  std::set<std::string> labels;
  for (const Setting& setting : settings) labels.insert(row_label(setting.first(), false));
  return labels.size() < settings.size();
}

// Not where ways other than the guide's stand beside its four, nor along a sweep of accumulation,
// which the guide's table has at 4 alone.
bool is_comparable(const PartView& part) {
  if (part.varies("accumulation_steps")) return false;
  const auto any = [&](auto is_so) { return std::ranges::any_of(part.cells, is_so); };
  if (any([](const CellView& cell) { return text::is_on_the_road(cell.cell); })) return false;
  const auto present = std::ranges::count_if(kStrategies, [&](const char* strategy) {
    return any([&](const CellView& cell) { return cell.cell.strategy() == strategy; });
  });
  return present >= 2;
}

std::string agreement_text(const Agreement& agreement) {
  if (agreement.judged == 0) return "";
  return fmt::format(
      "{} of {} measured means lie inside the 95 % interval (Student's t) of the guide's three "
      "raw "
      "runs;\nmean absolute error over the cells {:.1f} %. Measured ± is the sd of steps, "
      "published "
      "± as printed there.\n",
      agreement.inside, agreement.judged, 100 * stats::mean(agreement.relative_errors));
}

}  // namespace

text::Blocks guide_table(const PartView& part, const std::optional<PublishedSlowdowns>& reference) {
  if (!is_comparable(part)) return {};
  // The guide's order: several nodes first.
  std::vector<Setting> settings = part.settings;
  std::ranges::stable_sort(settings, {}, [](const Setting& setting) {
    return setting.first().name.topology.nodes <= 1;
  });
  TextTable table({{"", Align::Centre},
                   {"Baseline", Align::Centre},
                   {"`no_sync` improperly", Align::Centre},
                   {"`no_sync`", Align::Centre},
                   {"`accumulate`", Align::Centre}});
  const bool say_more = labels_collide(settings);
  Agreement agreement;
  for (const Setting& setting : settings) {
    std::vector<std::string> row = {row_label(setting.first(), say_more)};
    for (const char* strategy : kStrategies) {
      row.push_back(measured_text(setting.under(strategy), part.decimals));
    }
    table.add_row(row);
    add_published(table, setting, reference, agreement);
  }
  return {Prose{"Seconds per batch (one optimizer step), in the guide's layout:\n"}, table,
          Prose{agreement_text(agreement)}};
}

}  // namespace gradsync::report
