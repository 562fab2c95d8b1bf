// The quantities of a cell: each with its heads, its unit, its meaning and its value, in one place
// for every table and for csv.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "harness/report/cell_table.h"
#include "harness/summary/part_view.h"

namespace gradsync::report {

// Nothing: it is not known.
using Quantity = std::variant<std::monostate, std::int64_t, double, std::string, results::Ratio>;

// How a table prints a quantity; csv has them all as they are, in seconds and bytes.
enum class Unit { Plain, Seconds, SecondsWithUnit, Milliseconds, Percent, Bytes, Times, Sds, Tiny };

struct Column {
  std::string name;  // its head in csv; empty: it is not there
  std::string head;  // its head in a table; empty: it is in none
  Unit unit = Unit::Plain;
  std::string meaning;  // what the head of a table does not say, as a clause; may be empty
  std::function<Quantity(const results::CellResult& cell)> value;
};

// Returns what a table prints for a cell. `decimals`: of seconds. For a cell with a failed trial it
// prints "-", as for unknown numbers, instead of numbers that look as if all had gone well.
std::string text_of(const Column& column, const results::CellResult& cell, int decimals);

// Adds columns to those of a table.
void add_columns(std::vector<CellColumn<summary::CellView>>& shown,
                 const std::vector<Column>& columns, int decimals);

// Those that more than one table has.
Column slowdown_column();
Column exposed_column();
Column count_column(const std::string& op);  // "0" for an operation that was not used
Column moved_column();

// Returns the columns of a part's detailed table, from slowdown on, in their order, without those
// that would be empty or the same for all cells.
std::vector<Column> detail_columns(const summary::PartView& part);

// How single steps spread; and how far they are from what the link allows.
std::vector<Column> spread_columns();
std::vector<Column> bound_columns();

// Every column of csv, in its order.
const std::vector<Column>& csv_columns();

// Operations worth a column of their own where any cell uses them; the rest (a broadcast of
// buffers) counts as bytes only.
inline constexpr std::array kCountedOps = {
    "all_reduce", "reduce_scatter",        "all_gather",           "send",
    "recv",       "batch_norm_all_gather", "batch_norm_all_reduce"};
bool uses(const results::CellResult& cell, const std::string& op);

}  // namespace gradsync::report
