// The rows of a gate: which there are, which of them a user picks, and what they are called.
//
// A row is one cell of one part of a plan; or, of training commands, {"job": "optimizer step"}. A
// filter names parameters and the values they may have, as --set does:
// "strategy=no_sync,topology=2x1_1gbit", "strategy=no_sync,accumulate". All of a filter's
// parameters must fit, and any of several filters.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "harness/results/parameters.h"

namespace gradsync::gate {

struct Row {
  std::string part;  // "" where the plan has no parts
  results::Parameters cell;
  bool operator==(const Row&) const = default;
};

class RowFilter {
 public:
  // Matches every row.
  RowFilter() = default;

  // `origin` is what the filter came from, for messages ("--rows", "gates/smoke.json: rows[0]").
  // Errors: ConfigError for a text without "=", a parameter that cells do not have, or a value that
  // it cannot have. "part" is a parameter, too.
  explicit RowFilter(const std::string& text, const std::string& origin = "--rows");

  // The same from an object of parameters, {"strategy": "no_sync", "topology": ["1x2", "2x1"]}.
  static RowFilter of(const nlohmann::json& parameters, const std::string& origin);

  // A parameter that the cell does not name has its default.
  // Errors: ConfigError where the row's cell is none of this version's.
  bool matches(const Row& row) const;

  const std::string& text() const { return text_; }

 private:
  struct Term {
    std::string parameter;
    nlohmann::json values;  // any of these
  };

  void add(const std::string& parameter, const nlohmann::json& value, const std::string& origin);

  std::string text_;
  std::vector<Term> terms_;
};

// Returns the cell with these parameters changed, in full: each of them as --set would set it.
// Errors: ConfigError as RowFilter's.
plan::Cell cell_with(const results::Parameters& cell, const nlohmann::json& parameters,
                     const std::string& origin);

// Returns the rows that any of the filters matches, in their order; all of them without filters.
// Errors: ConfigError where a filter matches none, naming the rows there are.
std::vector<Row> select_rows(const std::vector<Row>& rows, const std::vector<RowFilter>& filters);

// Returns at most `count` of the rows, as indices in their order, that stand for all: one after the
// other, the row that adds most pairs of values of two parameters in which rows differ; the first
// of those that add as many. Four of plan `gate` have each strategy, size and bucket, and no two of
// them share more than one.
std::vector<std::size_t> rows_that_stand_for(const std::vector<Row>& rows, std::size_t count);

// Returns where each row runs: its part where there are several, its topology, and all other
// parameters in which rows of its part differ, except the strategy: "your_machine, 2x1_1gbit".
std::vector<std::string> place_names(const std::vector<Row>& rows);

// Returns a name for each row, its place and its strategy: "your_machine, 2x1_1gbit, no_sync".
std::vector<std::string> row_names(const std::vector<Row>& rows);

}  // namespace gradsync::gate
