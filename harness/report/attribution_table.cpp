#include "harness/report/attribution_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/report/labels.h"
#include "harness/report/text_table.h"
#include "harness/report/timed_steps.h"
#include "harness/report/topology_column.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

using SecondsByName = std::map<std::string, double>;

// A cell of which a trial failed keeps its numbers in result.json; a table does not print them.
bool tells_where_it_went(const json& cell) {
  return cell.value("status", "") == "ok" && cell.contains("attribution") &&
         cell["attribution"].is_object();
}

std::string why_it_does_not(const json& cell) {
  const std::string status = cell.value("status", "");
  return status == "ok" ? cell["null_reasons"].value("attribution", "")
                        : status + ", " + cell.value("reason", "");
}

bool communicated(const json& attribution) {
  return std::ranges::any_of(attribution["ranks"],
                             [](const json& rank) { return !rank["collectives"].empty(); });
}

// Of cells that communicate: without, a step is own compute and no question.
PartView with_attribution(const PartView& part) {
  PartView shown = part;
  std::erase_if(shown.cells, [](const json& cell) {
    return !tells_where_it_went(cell) || !communicated(cell["attribution"]);
  });
  return shown;
}

// Absent where none were told apart from waiting.
double copies_s(const json& rank) {
  return rank.value("copy_s", 0.0);
}

bool copied(const json& attribution) {
  return std::ranges::any_of(attribution["ranks"],
                             [](const json& rank) { return copies_s(rank) > 0; });
}

// The parts of a step by their names in result.json, and as a table calls them.
struct PartColumn {
  const char* name;
  const char* head;
};
std::vector<PartColumn> part_columns(bool with_copies) {
  std::vector<PartColumn> columns{{"own_compute_s", "own compute"},
                                  {"copy_s", "copy"},
                                  {"late_peer_s", "late peer"},
                                  {"wire_s", "wire"}};
  if (!with_copies) columns.erase(columns.begin() + 1);
  return columns;
}

double mean_over_ranks(const json& attribution, const char* name) {
  double sum_s = 0;
  for (const json& rank : attribution["ranks"]) sum_s += rank.value(name, 0.0);
  return sum_s / static_cast<double>(attribution["ranks"].size());
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

std::string latest_rank(const json& attribution) {
  SecondsByName waited_s;
  for (const json& rank : attribution["ranks"]) {
    for (const auto& [late, value_s] : rank["waited_for_s"].items()) {
      waited_s["rank " + late] += value_s.get<double>();
    }
  }
  return largest_share(waited_s);
}

std::string collective_name(const json& collective) {
  const int bucket = collective["bucket"].get<int>();
  return bucket < 0 ? collective["op"].get<std::string>() : fmt::format("bucket {}", bucket);
}

std::string most_exposed(const json& attribution) {
  SecondsByName exposed_s;
  for (const json& rank : attribution["ranks"]) {
    for (const json& collective : rank["collectives"]) {
      exposed_s[collective_name(collective)] +=
          collective["late_peer_s"].get<double>() + collective["wire_s"].get<double>();
    }
  }
  return largest_share(exposed_s);
}

std::string what_the_parts_mean(const PartView& shown, bool with_copies) {
  std::set<std::size_t> steps;
  double clock_error_s = 0;
  for (const json& cell : shown.cells) {
    const json& attribution = cell["attribution"];
    steps.insert(attribution["steps"].get<std::size_t>());
    clock_error_s = std::max(clock_error_s, attribution["clock_error_s"].get<double>());
  }
  std::string text = fmt::format(
      "Where a step went, by the last timed one of {} in each row, mean over ranks: own compute,\n"
      "{}waiting for a peer that had not come to the same collective, waiting for the wire.",
      steps == std::set<std::size_t>{1} ? "1 trial" : range_text(steps) + " trials",
      with_copies ? "copying buckets, " : "");
  if (clock_error_s > 0) {
    text += fmt::format(
        "\nThe hosts' clocks agree within {:.1f} us: so far may each border between peer and wire "
        "be off.",
        1e6 * clock_error_s);
  }
  return text + "\n";
}

std::string place_of_cell(const PartView& part, const json& cell) {
  std::string text = topology_label(part.context, cell).text();
  for (const std::string& name : part.varying_parameters()) {
    text += fmt::format(", {} {}", name, parameter_text(cell["cell"], name));
  }
  return text + ": " + strategy_label(cell["cell"].value("strategy", ""));
}

void add_parts_row(TextTable& table, const std::vector<PartColumn>& columns,
                   const std::string& name, const json& rank, const json& parts) {
  constexpr int kDecimals = 6;  // a small bucket takes microseconds
  std::vector<std::string> texts = {name, plain_text(rank["rank"])};
  for (const PartColumn& column : columns) {
    texts.push_back(seconds_text(parts.value(column.name, json()), kDecimals));
  }
  table.add_row(std::move(texts));
}

// What a rank did while nothing was in flight: the rest, with no waiting in it.
json uncovered(const json& rank) {
  double own_compute_s = rank["own_compute_s"].get<double>();
  double copy_s = copies_s(rank);
  for (const json& collective : rank["collectives"]) {
    own_compute_s -= collective["own_compute_s"].get<double>();
    copy_s -= copies_s(collective);
  }
  return {{"own_compute_s", std::max(0.0, own_compute_s)},
          {"copy_s", std::max(0.0, copy_s)},
          {"late_peer_s", nullptr},
          {"wire_s", nullptr}};
}

std::string by_collective(const json& attribution) {
  const std::vector<PartColumn> parts = part_columns(copied(attribution));
  std::vector<TextTable::Column> columns{{"collective", Align::Left}, {"rank"}};
  for (const PartColumn& part : parts) columns.push_back({part.head});
  TextTable table(std::move(columns));
  const json& ranks = attribution["ranks"];
  // All ranks took part in the same ones.
  for (std::size_t i = 0; i < ranks[0]["collectives"].size(); ++i) {
    for (const json& rank : ranks) {
      const json& collective = rank["collectives"][i];
      add_parts_row(table, parts, collective_name(collective), rank, collective);
    }
  }
  for (const json& rank : ranks) {
    add_parts_row(table, parts, "nothing in flight", rank, uncovered(rank));
  }
  for (const json& rank : ranks) add_parts_row(table, parts, "step", rank, rank);
  return table.to_markdown();
}

}  // namespace

std::string attribution_table(const PartView& part) {
  const PartView shown = with_attribution(part);
  if (shown.cells.empty()) return "";
  const auto varying = shown.varying_parameters();
  const int decimals = decimals_for(shown.cells);
  std::vector<TextTable::Column> columns = {{"topology", Align::Left}};
  for (const std::string& name : varying) columns.push_back({name, Align::Left});
  columns.push_back({"strategy", Align::Left});
  const bool with_copies = std::ranges::any_of(
      shown.cells, [](const json& cell) { return copied(cell["attribution"]); });
  const std::vector<PartColumn> parts = part_columns(with_copies);
  for (const PartColumn& part : parts) columns.push_back({part.head});
  for (const char* head : {"latest", "most exposed"}) columns.push_back({head, Align::Left});
  TextTable table(columns);
  TopologyColumn topology(shown);
  for (std::size_t row = 0; row < shown.cells.size(); ++row) {
    const json& cell = shown.cells[row];
    std::vector<std::string> texts = {topology.text(row)};
    for (const std::string& name : varying) texts.push_back(parameter_text(cell["cell"], name));
    texts.push_back(strategy_label(cell["cell"].value("strategy", "")));
    const json& attribution = cell["attribution"];
    for (const PartColumn& part : parts) {
      texts.push_back(seconds_text(mean_over_ranks(attribution, part.name), decimals) + " s");
    }
    texts.push_back(latest_rank(attribution));
    texts.push_back(most_exposed(attribution));
    table.add_row(std::move(texts));
  }
  return what_the_parts_mean(shown, with_copies) + "\n" + table.to_markdown();
}

std::string attribution_page(const json& result) {
  std::string text =
      "Where a step went, by the last timed one of each trial: means in seconds.\n"
      "own compute, copy = what hid a collective; late peer, wire = what the rank waited for it.\n";
  for (const PartView& part : parts_of(result)) {
    if (!part.name.empty()) text += "\n## " + part.name + "\n";
    for (const json& cell : part.cells) {
      text += "\n" + place_of_cell(part, cell) + "\n\n";
      text += tells_where_it_went(cell) ? by_collective(cell["attribution"])
                                        : "Not known: " + why_it_does_not(cell) + ".\n";
    }
  }
  return text;
}

}  // namespace gradsync::report
