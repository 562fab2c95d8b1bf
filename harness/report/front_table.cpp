#include <fmt/format.h>

#include <algorithm>

#include "harness/report/findings.h"
#include "harness/report/tables.h"
#include "harness/summary/pareto_front.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::FrontPoint;
using results::ParetoFront;
using summary::CellView;
using summary::PartView;
using text::Align;

namespace {

const CellView& view_of(const PartView& part, const FrontPoint& point) {
  return *std::ranges::find(part.cells, point.cell, &CellView::cell);
}

// What the sharding's name says already.
bool is_sharding(const std::string& lever) {
  return lever == "wrapper" || lever == "reshard_after_forward";
}

// "FULL_SHARD, no_sync, activation_checkpointing full"; levers that are not pulled are left out.
std::string way_text(const PartView& part, const FrontPoint& point) {
  const CellView& view = view_of(part, point);
  std::string text = view.name.sharding + ", " + view.name.strategy;
  for (const summary::VaryingValue& lever : view.name.varying) {
    const bool is_named = is_sharding(lever.name) || !summary::levers().contains(lever.name);
    if (!is_named && summary::is_pulled(point.cell, lever.name)) {
      text += fmt::format(", {} {}", lever.name, lever.text);
    }
  }
  return text;
}

// "Accumulation 8, 2 nodes x 1 rank": what the points share, as far as fronts of a part differ.
std::string place_text(const PartView& part, const ParetoFront& front) {
  const CellView& view = view_of(part, front.points.front());
  std::set<std::string> named = summary::levers();
  named.insert("accumulation_steps");
  std::string text = fmt::format("accumulation {}", front.cell.accumulation_steps());
  if (part.several_topologies) text += ", " + view.name.topology.text();
  return text + view.name.varying_text(named);
}

std::string ratio_of(const FrontPoint& point) {
  return text::text_or_dash(point.vs_fastest, text::ratio_text);
}

std::string bytes_of(const FrontPoint& point) {
  return text::bytes_text(point.peak_allocated_bytes);
}

std::vector<const FrontPoint*> on_front(const ParetoFront& front) {
  std::vector<const FrontPoint*> points;
  for (const FrontPoint& point : front.points) {
    if (point.on_front) points.push_back(&point);
  }
  return points;
}

// What intervals there are: none of a way that is the only one on its front.
std::string about_intervals(const ParetoFront& front) {
  const std::vector<const FrontPoint*> points = on_front(front);
  if (points.size() == 1) return "";
  const bool has_some = std::ranges::any_of(
      points, [](const FrontPoint* point) { return point->vs_fastest && point->vs_fastest->ci95; });
  return has_some ? fmt::format("Intervals hold for all {} pairs of ways at once.\n", front.choices)
                  : fmt::format(
                        "From so few launches no intervals would hold for all {} pairs of "
                        "ways at once.\n",
                        front.choices);
}

text::TextTable table_of(const PartView& part, const ParetoFront& front) {
  text::TextTable table({{"from a budget of", Align::Right},
                         {"the fastest way", Align::Left},
                         {"s/step", Align::Right},
                         {"x fastest", Align::Right}});
  for (const FrontPoint* point : on_front(front)) {
    table.add_row({bytes_of(*point), way_text(part, *point),
                   text::seconds_text(point->step_s, part.decimals), ratio_of(*point)});
  }
  return table;
}

std::string sentence(const PartView& part, const ParetoFront& front) {
  const FrontPoint& least = front.points.front();
  const FrontPoint& fastest = front.fastest();
  const std::string place = place_text(part, front);
  if (&least == &fastest) {
    return fmt::format("At {}, {} holds least ({}) and is the fastest of {} ways.", place,
                       way_text(part, least), bytes_of(least), front.points.size());
  }
  return fmt::format("At {}, in {} the fastest is {}, {} the time of {}, which needs {}.", place,
                     bytes_of(least), way_text(part, least), ratio_of(least),
                     way_text(part, fastest), bytes_of(fastest));
}

}  // namespace

text::Blocks front_tables(const PartView& part) {
  text::Blocks blocks;
  for (const ParetoFront& front : part.fronts) {
    blocks.emplace_back(text::Prose{
        fmt::format("Memory against time at {}: {} of {} ways are on the front, by their means.\n",
                    place_text(part, front), on_front(front).size(), front.points.size()) +
        about_intervals(front)});
    blocks.emplace_back(table_of(part, front));
  }
  return blocks;
}

std::vector<std::string> front_findings(const PartView& part) {
  std::vector<std::string> sentences;
  for (const ParetoFront& front : part.fronts) sentences.push_back(sentence(part, front));
  return sentences;
}

}  // namespace gradsync::report
