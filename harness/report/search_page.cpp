#include "harness/report/search_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/paper/words.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"

namespace gradsync::report {

using plan::Edge;
using summary::Search;
using summary::SearchedCell;
using text::Align;
using text::TextTable;

namespace {

std::string value_text(const Search& search, std::int64_t value) {
  if (search.axis != "memory_budget_bytes") return std::to_string(value);
  return fmt::format("{} ({})", value, text::bytes_text(value));
}

std::string edge_text(const Search& search, const SearchedCell& cell) {
  switch (cell.outcome) {
    case Edge::Outcome::Found:
      return value_text(search, *cell.edge);
    case Edge::Outcome::NoneFits:
      return "none fits";
    case Edge::Outcome::NotMonotone:
      return "not monotone";
    case Edge::Outcome::AllFit:
      return search.wanted == plan::Wanted::Largest ? value_text(search, *cell.to) + " or more"
                                                    : value_text(search, cell.from) + " or less";
    case Edge::Outcome::Stopped:
      break;
  }
  return "-";
}

std::vector<std::string> varying_over(const std::vector<SearchedCell>& cells) {
  std::vector<const results::Parameters*> parameters;
  for (const SearchedCell& cell : cells) parameters.push_back(&cell.cell);
  return text::varying_names(parameters);
}

// A cell's place in the plan, as the columns of its row have it.
std::vector<std::string> name_of(const SearchedCell& searched,
                                 const std::vector<std::string>& varying) {
  const results::Parameters& cell = searched.cell;
  if (!cell.job().empty()) return {"`" + cell.job() + "`"};
  std::vector<std::string> name{cell.topology(), text::strategy_label(cell.strategy())};
  for (const std::string& parameter : varying) {
    name.push_back(cell.has(parameter) ? text::plain_text(cell.value(parameter)) : "");
  }
  return name;
}

}  // namespace

std::string search_markdown(const Search& search, const std::string& raw_directory) {
  const std::string what = fmt::format(
      "{} {}", search.wanted == plan::Wanted::Largest ? "largest" : "smallest", search.axis);
  const auto varying = varying_over(search.cells);
  const bool is_of_a_job = !search.cells.empty() && !search.cells.front().cell.job().empty();
  std::vector<TextTable::Column> columns{{"topology", Align::Left}, {"strategy", Align::Left}};
  if (is_of_a_job) columns = {{"job", Align::Left}};
  for (const std::string& name : varying) columns.push_back({name, Align::Right});
  for (const std::string& head : {what, std::string("peak there"), std::string("trials")}) {
    columns.push_back({head, Align::Right});
  }
  TextTable table(columns);
  std::string reasons;
  for (const SearchedCell& cell : search.cells) {
    auto row = name_of(cell, varying);
    reasons += fmt::format("- {}: {}\n", fmt::join(row, ", "), cell.reason);
    row.push_back(edge_text(search, cell));
    row.push_back(text::text_or_dash(cell.peak_allocated_bytes, text::bytes_text));
    row.push_back(std::to_string(cell.probes.size()));
    table.add_row(std::move(row));
  }
  const nlohmann::json gpus =
      is_of_a_job ? search.cells.front().cell.value(paper::kGpusField) : nlohmann::json();
  const std::string on_paper =
      gpus.is_null() ? ""
                     : fmt::format("{} ({})\n\n", paper::kNothingComputed, text::plain_text(gpus));
  const std::string of_what = is_of_a_job ? "" : fmt::format("plan {}: ", search.plan);
  return fmt::format("{}the {} that fits\n\n{}\n{}\n{}Raw: {}\n", of_what, what,
                     table.to_markdown(), reasons, on_paper, raw_directory);
}

}  // namespace gradsync::report
