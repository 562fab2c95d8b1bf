#include "harness/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "harness/report/cell_table.h"
#include "harness/text/labels.h"

namespace gradsync::report {

using results::Attribution;
using results::CellResult;
using results::CollectiveShare;
using results::PartShown;
using results::RankShare;
using results::TimePart;
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

// Returns the cells that communicate: in others a step is only own compute.
PartView with_attribution(const PartView& part) {
  std::vector<CellView> shown;
  for (const CellView& cell : part.cells) {
    if (tells_where_it_went(cell) && communicated(*cell.attribution)) shown.push_back(cell);
  }
  return {part.name, part.about, std::move(shown)};
}

bool has(const Attribution& attribution, const TimePart& part) {
  return std::ranges::any_of(attribution.ranks,
                             [&](const RankShare& rank) { return rank.*part.seconds > 0; });
}

// Returns the parts to show: a part that not every step has is shown if one of `attributions` has
// it.
std::vector<TimePart> parts_shown(const std::vector<const Attribution*>& attributions) {
  std::vector<TimePart> shown;
  std::ranges::copy_if(results::kTimeParts, std::back_inserter(shown), [&](const TimePart& part) {
    return part.shown == PartShown::Always ||
           std::ranges::any_of(attributions, [&](const Attribution* attribution) {
             return has(*attribution, part);
           });
  });
  return shown;
}

template <typename Cells>
std::vector<const Attribution*> attributions_of(const Cells& cells) {
  std::vector<const Attribution*> attributions;
  for (const CellResult& cell : cells) {
    if (tells_where_it_went(cell)) attributions.push_back(&*cell.attribution);
  }
  return attributions;
}

// "own compute, copy": the columns of those that are waiting for a collective, or of those not.
std::string columns_text(const std::vector<TimePart>& parts, bool is_waiting) {
  std::vector<std::string> columns;
  for (const TimePart& part : parts) {
    if (part.is_waiting == is_waiting) columns.emplace_back(part.column);
  }
  return fmt::format("{}", fmt::join(columns, ", "));
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
  const auto largest = std::ranges::max_element(seconds, {}, &SecondsByName::value_type::second);
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

std::string what_the_parts_mean(const PartView& shown, const std::vector<TimePart>& parts) {
  std::set<std::size_t> steps;
  double clock_error_s = 0;
  for (const CellResult& cell : shown.cells) {
    steps.insert(static_cast<std::size_t>(cell.attribution->steps));
    clock_error_s = std::max(clock_error_s, cell.attribution->clock_error_s);
  }
  std::string text = fmt::format(
      "Where a step went, by the last timed one of {} in each row, mean over ranks: ",
      steps == std::set<std::size_t>{1} ? "1 trial" : summary::range_text(steps) + " trials");
  std::vector<std::string> meanings;
  for (const TimePart& part : parts) meanings.emplace_back(part.meaning);
  text += meanings.front() + ",\n" +
          fmt::format("{}.", fmt::join(meanings.begin() + 1, meanings.end(), ", "));
  if (clock_error_s > 0) {
    text += fmt::format(
        "\nThe hosts' clocks agree within {:.1f} us: so far may each border between peer and wire "
        "be off.",
        1e6 * clock_error_s);
  }
  return text + "\n";
}

// `parts` has what the row is about; one without waiting has "-" there.
void add_parts_row(TextTable& table, const std::vector<TimePart>& shown, const std::string& name,
                   const RankShare& rank, const TimeParts& parts, bool waited = true) {
  constexpr int kDecimals = 6;  // a small bucket takes microseconds
  std::vector<std::string> texts = {name, std::to_string(rank.rank)};
  for (const TimePart& part : shown) {
    texts.push_back(
        part.is_waiting && !waited ? "-" : text::seconds_text(parts.*part.seconds, kDecimals));
  }
  table.add_row(std::move(texts));
}

// Returns what a rank did while nothing was in flight: the rest of its step, without waiting.
TimeParts uncovered(const RankShare& rank) {
  TimeParts rest;
  for (const TimePart& part : results::kTimeParts) {
    if (part.is_waiting) continue;
    double& rest_s = rest.*part.seconds;
    rest_s = rank.*part.seconds;
    for (const CollectiveShare& collective : rank.collectives) rest_s -= collective.*part.seconds;
    rest_s = std::max(0.0, rest_s);
  }
  return rest;
}

std::string by_collective(const Attribution& attribution) {
  const std::vector<TimePart> parts = parts_shown({&attribution});
  std::vector<TextTable::Column> columns{{"collective", Align::Left}, {"rank"}};
  for (const TimePart& part : parts) columns.push_back({part.column});
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
                                             const std::vector<TimePart>& parts) {
  std::vector<CellColumn<CellView>> columns;
  for (const TimePart& part : parts) {
    columns.push_back(
        {part.column, [seconds = part.seconds, decimals = shown.decimals](const CellView& cell) {
           return text::seconds_text(mean_over_ranks(*cell.attribution, seconds), decimals) + " s";
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
  const std::vector<TimePart> parts = parts_shown(attributions_of(shown.cells));
  return {text::Prose{what_the_parts_mean(shown, parts)},
          cell_table(shown.cells, columns_of(shown, parts))};
}

std::string attribution_page(const results::Result& result) {
  const std::vector<TimePart> parts = parts_shown(attributions_of(result.cells));
  std::string text = fmt::format(
      "Where a step went, by the last timed one of each trial: means in seconds.\n"
      "{} = what hid a collective; {} = what the rank waited for it.\n",
      columns_text(parts, false), columns_text(parts, true));
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
