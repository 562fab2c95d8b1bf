#include "harness/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "harness/report/cell_table.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::Attribution;
using results::CellResult;
using results::CollectiveShare;
using results::RankShare;
using results::TimeParts;
using summary::CellView;
using summary::PartView;
using text::Align;
using text::TextTable;

namespace {

using SecondsByName = std::map<std::string, double>;

// A cell of which a trial failed keeps its numbers in result.json; a table does not print them.
bool tells_where_it_went(const CellResult& cell) {
  return cell.is_ok() && cell.attribution;
}

std::string why_it_does_not(const CellResult& cell) {
  return cell.is_ok() ? cell.attribution.why_not()
                      : results::to_string(cell.status) + ", " + cell.reason;
}

bool communicated(const Attribution& attribution) {
  return std::ranges::any_of(attribution.ranks,
                             [](const RankShare& rank) { return !rank.collectives.empty(); });
}

// Of cells that communicate: without, a step is own compute and no question.
PartView with_attribution(const PartView& part) {
  std::vector<CellView> shown;
  for (const CellView& cell : part.cells) {
    if (tells_where_it_went(cell) && communicated(*cell.attribution)) shown.push_back(cell);
  }
  return {part.name, part.about, std::move(shown)};
}

bool has(const Attribution& attribution, double TimeParts::*part) {
  return std::ranges::any_of(attribution.ranks,
                             [part](const RankShare& rank) { return rank.*part > 0; });
}

// A part of a step and what a table calls it.
struct PartColumn {
  double TimeParts::*part;
  const char* head;
};

// What not every step does has a column where one of `attributions` did it.
std::vector<PartColumn> part_columns(const std::vector<const Attribution*>& attributions) {
  std::vector<PartColumn> columns{{&TimeParts::own_compute_s, "own compute"},
                                  {&TimeParts::recompute_s, "recompute"},
                                  {&TimeParts::copy_s, "copy"},
                                  {&TimeParts::offload_s, "offload"},
                                  {&TimeParts::cast_s, "cast"},
                                  {&TimeParts::late_peer_s, "late peer"},
                                  {&TimeParts::wire_s, "wire"}};
  std::erase_if(columns, [&](const PartColumn& column) {
    constexpr std::array kRare{&TimeParts::recompute_s, &TimeParts::copy_s, &TimeParts::offload_s,
                               &TimeParts::cast_s};
    const bool is_rare = std::ranges::find(kRare, column.part) != kRare.end();
    return is_rare && std::ranges::none_of(attributions, [&](const Attribution* attribution) {
             return has(*attribution, column.part);
           });
  });
  return columns;
}

bool has_column(const std::vector<PartColumn>& columns, double TimeParts::*part) {
  return std::ranges::any_of(columns,
                             [part](const PartColumn& column) { return column.part == part; });
}

double mean_over_ranks(const Attribution& attribution, double TimeParts::*part) {
  double sum_s = 0;
  for (const RankShare& rank : attribution.ranks) sum_s += rank.*part;
  return sum_s / static_cast<double>(attribution.ranks.size());
}

// "bucket 13 (62 %)": the name of most seconds, with its share of all; "-" where there are none.
std::string largest_share(const SecondsByName& seconds) {
  double sum_s = 0;
  for (const auto& [name, value_s] : seconds) sum_s += value_s;
  if (sum_s <= 0) return "-";
  const auto largest =
      std::max_element(seconds.begin(), seconds.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("{} ({:.0f} %)", largest->first, 100 * largest->second / sum_s);
}

std::string latest_rank(const Attribution& attribution) {
  SecondsByName waited_s;
  for (const RankShare& rank : attribution.ranks) {
    for (const auto& [late, value_s] : rank.waited_for_s) waited_s["rank " + late] += value_s;
  }
  return largest_share(waited_s);
}

std::string collective_name(const CollectiveShare& collective) {
  return collective.bucket < 0 ? collective.op : fmt::format("bucket {}", collective.bucket);
}

std::string most_exposed(const Attribution& attribution) {
  SecondsByName exposed_s;
  for (const RankShare& rank : attribution.ranks) {
    for (const CollectiveShare& collective : rank.collectives) {
      exposed_s[collective_name(collective)] += collective.exposed_s();
    }
  }
  return largest_share(exposed_s);
}

std::string what_the_parts_mean(const PartView& shown, const std::vector<PartColumn>& columns) {
  std::set<std::size_t> steps;
  double clock_error_s = 0;
  for (const CellResult& cell : shown.cells) {
    steps.insert(static_cast<std::size_t>(cell.attribution->steps));
    clock_error_s = std::max(clock_error_s, cell.attribution->clock_error_s);
  }
  std::string text = fmt::format(
      "Where a step went, by the last timed one of {} in each row, mean over ranks: own compute,\n"
      "{}{}{}{}waiting for a peer that had not come to the same collective, waiting for the wire.",
      steps == std::set<std::size_t>{1} ? "1 trial" : summary::range_text(steps) + " trials",
      has_column(columns, &TimeParts::recompute_s) ? "computing again, " : "",
      has_column(columns, &TimeParts::copy_s) ? "copying buckets, " : "",
      has_column(columns, &TimeParts::offload_s) ? "copying to the host and back, " : "",
      has_column(columns, &TimeParts::cast_s) ? "casts, " : "");
  if (clock_error_s > 0) {
    text += fmt::format(
        "\nThe hosts' clocks agree within {:.1f} us: so far may each border between peer and wire "
        "be off.",
        1e6 * clock_error_s);
  }
  return text + "\n";
}

// `parts` has what the row is about; one without waiting has "-" there.
void add_parts_row(TextTable& table, const std::vector<PartColumn>& columns,
                   const std::string& name, const RankShare& rank, const TimeParts& parts,
                   bool waited = true) {
  constexpr int kDecimals = 6;  // a small bucket takes microseconds
  std::vector<std::string> texts = {name, std::to_string(rank.rank)};
  for (const auto& [part, head] : columns) {
    const bool is_waiting = part == &TimeParts::late_peer_s || part == &TimeParts::wire_s;
    texts.push_back(is_waiting && !waited ? "-" : text::seconds_text(parts.*part, kDecimals));
  }
  table.add_row(std::move(texts));
}

// What a rank did while nothing was in flight: the rest, with no waiting in it.
TimeParts uncovered(const RankShare& rank) {
  TimeParts rest;
  for (const auto part : {&TimeParts::own_compute_s, &TimeParts::recompute_s, &TimeParts::copy_s,
                          &TimeParts::offload_s, &TimeParts::cast_s}) {
    rest.*part = rank.*part;
    for (const CollectiveShare& collective : rank.collectives) rest.*part -= collective.*part;
    rest.*part = std::max(0.0, rest.*part);
  }
  return rest;
}

std::string by_collective(const Attribution& attribution) {
  const std::vector<PartColumn> parts = part_columns({&attribution});
  std::vector<TextTable::Column> columns{{"collective", Align::Left}, {"rank"}};
  for (const PartColumn& part : parts) columns.push_back({part.head});
  TextTable table(std::move(columns));
  const auto& ranks = attribution.ranks;
  // All ranks took part in the same ones.
  for (std::size_t i = 0; i < ranks.front().collectives.size(); ++i) {
    for (const RankShare& rank : ranks) {
      const CollectiveShare& collective = rank.collectives[i];
      add_parts_row(table, parts, collective_name(collective), rank, collective);
    }
  }
  for (const RankShare& rank : ranks) {
    add_parts_row(table, parts, "nothing in flight", rank, uncovered(rank), false);
  }
  for (const RankShare& rank : ranks) add_parts_row(table, parts, "step", rank, rank);
  return table.to_markdown();
}

std::vector<CellColumn<CellView>> columns_of(const PartView& shown,
                                             const std::vector<PartColumn>& parts) {
  std::vector<CellColumn<CellView>> columns;
  for (const auto& [part, head] : parts) {
    columns.push_back(
        {head, [part = part, decimals = shown.decimals](const CellView& cell) {
           return text::seconds_text(mean_over_ranks(*cell.attribution, part), decimals) + " s";
         }});
  }
  const auto left = [&](const char* head, std::string (*text)(const Attribution&)) {
    columns.push_back(
        {head, [text](const CellView& cell) { return text(*cell.attribution); }, Align::Left});
  };
  left("latest", latest_rank);
  left("most exposed", most_exposed);
  return columns;
}

}  // namespace

text::Blocks attribution_table(const PartView& part) {
  const PartView shown = with_attribution(part);
  if (shown.cells.empty()) return {};
  std::vector<const Attribution*> attributions;
  for (const CellView& cell : shown.cells) attributions.push_back(&*cell.attribution);
  const std::vector<PartColumn> parts = part_columns(attributions);
  return {text::Prose{what_the_parts_mean(shown, parts)},
          cell_table(shown.cells, columns_of(shown, parts))};
}

std::string attribution_page(const results::Result& result) {
  const auto any_has = [&result](double TimeParts::*part) {
    return std::ranges::any_of(result.cells, [part](const CellResult& cell) {
      return tells_where_it_went(cell) && has(*cell.attribution, part);
    });
  };
  std::string text = fmt::format(
      "Where a step went, by the last timed one of each trial: means in seconds.\n"
      "own compute, {}copy{}{} = what hid a collective; late peer, wire = what the rank waited for "
      "it.\n",
      any_has(&TimeParts::recompute_s) ? "recompute, " : "",
      any_has(&TimeParts::offload_s) ? ", offload" : "",
      any_has(&TimeParts::cast_s) ? ", cast" : "");
  for (const PartView& part : summary::parts_of(result)) {
    if (!part.name.empty()) text += "\n## " + part.name + "\n";
    for (const CellView& cell : part.cells) {
      text += "\n" + cell.name.place() + ": " + cell.name.strategy + "\n\n";
      text += tells_where_it_went(cell) ? by_collective(*cell.attribution)
                                        : "Not known: " + why_it_does_not(cell) + ".\n";
    }
  }
  return text;
}

}  // namespace gradsync::report
