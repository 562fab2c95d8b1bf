#include "benchmarks/commands/memory_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <utility>

#include "benchmarks/commands/cell_columns.h"
#include "harness/base/fields.h"
#include "harness/base/units.h"
#include "harness/plan/cell.h"
#include "harness/text/text_table.h"

namespace gradsync::cli {

constexpr auto fields_of(const MemoryRow*) {
  return std::tuple{
      GRADSYNC_FIELDS(MemoryRow, cell, world_size),
      field("device", &MemoryRow::device).spared(),
      field("predicted_peak_allocated_bytes", &MemoryRow::peak_bytes),
      field("predicted_peak_by_category", &MemoryRow::peak_by_category),
      field("predicted_peak_reserved_bytes", &MemoryRow::peak_reserved_bytes),
      field("predicted_host_peak_allocated_bytes", &MemoryRow::host_peak_bytes).spared(),
      GRADSYNC_FIELDS(MemoryRow, place, unknown_because),
      GRADSYNC_SPARED_FIELDS(MemoryRow, budget_bytes, fits, largest_accumulation_steps)};
}

namespace {

std::string largest(const MemoryRow& row) {
  const int count = *row.largest_accumulation_steps;
  if (count == 0) return "none";
  return count == kMostMicroBatches ? fmt::format("{} or more", count) : std::to_string(count);
}

// Returns the axes in which the rows differ, without those of the first columns.
std::vector<std::string> other_axes(const std::vector<MemoryRow>& rows) {
  std::vector<plan::Cell> cells;
  for (const MemoryRow& row : rows) cells.push_back(row.cell);
  return varying_axes(cells, {"wrapper", "strategy", "accumulation_steps"});
}

struct PeakColumn {
  text::TextTable::Column header;
  std::function<std::string(const MemoryRow&)> cell;
};

std::string bytes_or(const std::optional<std::int64_t>& bytes, const char* otherwise) {
  return bytes ? std::to_string(*bytes) : otherwise;
}

template <typename Bytes>
std::string size_or(const Bytes& bytes, const char* otherwise) {
  return bytes ? format_bytes(static_cast<double>(*bytes)) : otherwise;
}

std::vector<PeakColumn> columns_of(const std::vector<MemoryRow>& rows) {
  const auto any_has = [&](auto MemoryRow::*field) {
    return std::ranges::any_of(rows,
                               [&](const MemoryRow& row) { return static_cast<bool>(row.*field); });
  };
  constexpr auto kLeft = text::Align::Left;
  std::vector<PeakColumn> columns{
      {{"wrapper", kLeft}, [](const MemoryRow& row) { return row.cell.wrapper; }},
      {{"strategy", kLeft}, [](const MemoryRow& row) { return row.cell.strategy; }},
      {{"accumulation"},
       [](const MemoryRow& row) { return std::to_string(row.cell.accumulation_steps); }}};
  for (const std::string& axis : other_axes(rows)) {
    columns.push_back(
        {{axis, kLeft}, [axis](const MemoryRow& row) { return axis_text(row.cell, axis); }});
  }
  columns.push_back(
      {{"ranks"}, [](const MemoryRow& row) { return std::to_string(row.world_size); }});
  columns.push_back({{"peak bytes"}, [](const MemoryRow& row) {
                       return bytes_or(row.peak_bytes, "not declared");
                     }});
  columns.push_back({{"peak"}, [](const MemoryRow& row) { return size_or(row.peak_bytes, ""); }});
  if (any_has(&MemoryRow::peak_reserved_bytes)) {
    columns.push_back(
        {{"reserved"}, [](const MemoryRow& row) { return size_or(row.peak_reserved_bytes, ""); }});
  }
  if (any_has(&MemoryRow::host_peak_bytes)) {
    columns.push_back({{"host peak bytes"}, [](const MemoryRow& row) {
                         return bytes_or(row.host_peak_bytes, row.peak_bytes ? "-" : "");
                       }});
  }
  columns.push_back({{"reached in", kLeft},
                     [](const MemoryRow& row) { return row.place.value_or(row.unknown_because); }});
  if (!any_has(&MemoryRow::budget_bytes)) return columns;
  columns.push_back({{"budget", kLeft}, [](const MemoryRow& row) {
                       return row.fits ? (*row.fits ? "fits" : "oom") : "";
                     }});
  columns.push_back({{"largest accumulation"}, [](const MemoryRow& row) {
                       return row.largest_accumulation_steps ? largest(row) : "";
                     }});
  return columns;
}

void print_peaks(const std::vector<MemoryRow>& rows) {
  const std::vector<PeakColumn> columns = columns_of(rows);
  std::vector<text::TextTable::Column> headers;
  for (const PeakColumn& column : columns) headers.push_back(column.header);
  text::TextTable table(headers);
  for (const MemoryRow& row : rows) {
    std::vector<std::string> words;
    for (const PeakColumn& column : columns) words.push_back(column.cell(row));
    table.add_row(words);
  }
  std::cout << table.to_markdown();
}

// Prints the parts of a single row's peak, largest first.
void print_composition(const MemoryRow& row) {
  if (!row.peak_by_category) return;
  std::vector<std::pair<std::int64_t, std::string>> sorted;
  for (const auto& [name, size] : *row.peak_by_category) {
    if (size > 0) sorted.emplace_back(-size, name);
  }
  std::ranges::sort(sorted);
  text::TextTable table({{"part", text::Align::Left}, {"bytes"}, {"share"}});
  const auto peak = static_cast<double>(*row.peak_bytes);
  for (const auto& [size, name] : sorted) {
    constexpr double kPercent = 100;
    table.add_row({name, std::to_string(-size),
                   fmt::format("{:.1f} %", kPercent * static_cast<double>(-size) / peak)});
  }
  std::cout << "\n" << table.to_markdown();
}

// All rows lack reserved memory for one reason: rows that are not declared at all say why.
void say_why_nothing_is_reserved(const std::vector<MemoryRow>& rows) {
  for (const MemoryRow& row : rows) {
    if (!row.peak_bytes || row.peak_reserved_bytes) continue;
    std::cout << "\nreserved: not known, because " << row.peak_reserved_bytes.why_not() << "\n";
    return;
  }
}

}  // namespace

void print_memory(const std::vector<MemoryRow>& rows) {
  print_peaks(rows);
  say_why_nothing_is_reserved(rows);
  if (rows.size() == 1) print_composition(rows.front());
}

std::string memory_json(const std::vector<MemoryRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const MemoryRow& row : rows) list.push_back(write_fields(row));
  return list.dump(1);
}

}  // namespace gradsync::cli
