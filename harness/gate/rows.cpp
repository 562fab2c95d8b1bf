#include "harness/gate/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/base/named.h"
#include "harness/base/words.h"
#include "harness/plan/cell.h"
#include "harness/results/parameters.h"
#include "harness/text/labels.h"

namespace gradsync::gate {

using nlohmann::json;

namespace {

[[noreturn]] void fail_unknown(const std::string& origin, const std::string& parameter) {
  std::vector<std::string> names{"part"};
  for (const plan::Axis& axis : plan::axes()) names.push_back(axis.name);
  std::sort(names.begin(), names.end());
  throw ConfigError(origin, parameter, "an unknown parameter",
                    fmt::format("one of {}", fmt::join(names, ", ")));
}

void set_parameter(plan::Cell& cell, const std::string& parameter, const json& value,
                   const std::string& origin) {
  const plan::Axis* axis = entry_named(plan::axes(), parameter);
  if (axis == nullptr) fail_unknown(origin, parameter);
  try {
    axis->set(cell, value);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(origin, parameter, value.dump(), error.what());
  }
}

// Returns the parameters in which the rows of each part differ, except topology and strategy.
std::map<std::string, std::vector<std::string>> varying_by_part(const std::vector<Row>& rows) {
  std::map<std::string, std::vector<const results::Parameters*>> parts;
  for (const Row& row : rows) parts[row.part].push_back(&row.cell);
  std::map<std::string, std::vector<std::string>> varying;
  for (const auto& [name, cells] : parts) varying[name] = text::varying_names(cells);
  return varying;
}

using ValuePairs = std::set<std::pair<std::string, std::string>>;

// Returns for each row the pairs of its values of two of these parameters, the part among them.
std::vector<ValuePairs> pairs_of_values(const std::vector<Row>& rows,
                                        const std::vector<std::string>& names) {
  std::vector<ValuePairs> pairs;
  for (const Row& row : rows) {
    std::vector<std::string> values = {row.part, "topology=" + row.cell.topology(),
                                       "strategy=" + row.cell.strategy()};
    for (const std::string& name : names) {
      if (row.cell.has(name)) values.push_back(name + "=" + row.cell.value(name).dump());
    }
    ValuePairs& of_row = pairs.emplace_back();
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t j = i + 1; j < values.size(); ++j) of_row.insert({values[i], values[j]});
    }
  }
  return pairs;
}

bool several_parts(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& row) { return row.part != rows.front().part; });
}

}  // namespace

RowFilter::RowFilter(const std::string& text, const std::string& origin) : text_(text) {
  std::string parameter;
  for (const std::string& piece : split_at_commas(text)) {
    const auto equals = piece.find('=');
    if (equals != std::string::npos) parameter = piece.substr(0, equals);
    if (parameter.empty()) {
      throw ConfigError(fmt::format(
          "{}: got '{}', expected PARAMETER=VALUE, as in strategy=no_sync,topology=2x1_1gbit",
          origin, text));
    }
    const std::string value = equals == std::string::npos ? piece : piece.substr(equals + 1);
    add(parameter, parameter == "part" ? json(value) : json_or_word(value), origin);
  }
}

RowFilter RowFilter::of(const json& parameters, const std::string& origin) {
  RowFilter filter;
  filter.text_ = parameters.dump();
  if (!parameters.is_object()) {
    throw ConfigError(
        fmt::format("{}: got {}, expected an object of parameters", origin, filter.text_));
  }
  for (const auto& [parameter, values] : parameters.items()) {
    if (!values.is_array()) {
      filter.add(parameter, values, origin);
    } else {
      for (const json& value : values) filter.add(parameter, value, origin);
    }
  }
  return filter;
}

void RowFilter::add(const std::string& parameter, const json& value, const std::string& origin) {
  if (parameter == "part" && !value.is_string()) {
    throw ConfigError(origin, parameter, value.dump(), "a part's name");
  }
  plan::Cell scratch;
  if (parameter != "part") set_parameter(scratch, parameter, value, origin);
  const auto same = [&](const Term& term) { return term.parameter == parameter; };
  auto term = std::find_if(terms_.begin(), terms_.end(), same);
  if (term == terms_.end()) term = terms_.insert(term, Term{parameter, json::array()});
  term->values.push_back(value);
}

bool RowFilter::matches(const Row& row) const {
  const plan::Cell cell = plan::cell_from_json(row.cell.written(), "a row");
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    return std::any_of(term.values.begin(), term.values.end(), [&](const json& value) {
      if (term.parameter == "part") return value == row.part;
      plan::Cell with_value = cell;
      set_parameter(with_value, term.parameter, value, text_);
      return with_value == cell;
    });
  });
}

plan::Cell cell_with(const results::Parameters& cell, const json& parameters,
                     const std::string& origin) {
  plan::Cell changed = plan::cell_from_json(cell.written(), "a row");
  for (const auto& [parameter, value] : parameters.items()) {
    set_parameter(changed, parameter, value, origin);
  }
  return changed;
}

std::vector<Row> select_rows(const std::vector<Row>& rows, const std::vector<RowFilter>& filters) {
  if (filters.empty()) return rows;
  for (const RowFilter& filter : filters) {
    if (std::any_of(rows.begin(), rows.end(),
                    [&](const Row& row) { return filter.matches(row); })) {
      continue;
    }
    throw ConfigError(fmt::format("rows '{}': no row is selected, expected one of: {}",
                                  filter.text(), fmt::join(row_names(rows), "; ")));
  }
  std::vector<Row> selected;
  for (const Row& row : rows) {
    if (std::any_of(filters.begin(), filters.end(),
                    [&](const RowFilter& filter) { return filter.matches(row); })) {
      selected.push_back(row);
    }
  }
  return selected;
}

std::vector<std::size_t> rows_that_stand_for(const std::vector<Row>& rows, std::size_t count) {
  std::vector<const results::Parameters*> cells;
  for (const Row& row : rows) cells.push_back(&row.cell);
  const std::vector<ValuePairs> pairs = pairs_of_values(rows, text::varying_names(cells));
  std::vector<std::size_t> chosen;
  ValuePairs covered;
  while (chosen.size() < std::min(count, rows.size())) {
    std::optional<std::size_t> best;
    std::size_t most = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (std::ranges::find(chosen, row) != chosen.end()) continue;
      const auto added = static_cast<std::size_t>(std::ranges::count_if(
          pairs[row], [&](const auto& pair) { return !covered.contains(pair); }));
      if (best && added <= most) continue;
      best = row;
      most = added;
    }
    chosen.push_back(*best);
    covered.insert(pairs[*best].begin(), pairs[*best].end());
  }
  std::ranges::sort(chosen);
  return chosen;
}

std::vector<std::string> place_names(const std::vector<Row>& rows) {
  auto varying = varying_by_part(rows);
  const bool parts = several_parts(rows);
  std::vector<std::string> names;
  for (const Row& row : rows) {
    std::vector<std::string> words;
    if (parts && !row.part.empty()) words.push_back(row.part);
    if (!row.cell.topology().empty()) words.push_back(row.cell.topology());
    for (const std::string& parameter : varying[row.part]) {
      if (!row.cell.has(parameter)) continue;
      words.push_back(fmt::format("{} {}", parameter, text::parameter_text(row.cell, parameter)));
    }
    names.push_back(fmt::format("{}", fmt::join(words, ", ")));
  }
  return names;
}

std::vector<std::string> row_names(const std::vector<Row>& rows) {
  std::vector<std::string> names = place_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const results::Parameters& cell = rows[i].cell;
    if (!cell.job().empty()) names[i] = cell.job();
    if (!cell.strategy().empty()) names[i] += ", " + text::strategy_label(cell.strategy());
  }
  return names;
}

}  // namespace gradsync::gate
