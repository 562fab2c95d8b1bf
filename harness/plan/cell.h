// The axes of a cell: which fields there are and which values each may have.
//
// One table serves the plan file, where an axis is a list to multiply out, the results file or
// launch specification, where a cell has one value of each, predictions, which refuse what they do
// not know, and plan.schema.json. A new option is its member of Cell, which C++ cannot declare by
// the row of a table, its row in options.cpp, and where it acts; kinds of axes are in axis_kinds.h.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "models/abilities.h"

namespace gradsync::plan {

// The predictions: each says how much memory or time a cell needs, without running it.
enum class Prediction {
  Memory,     // of the suite's models
  JobMemory,  // of a job in Python, whose model's memory was recorded
  Step,       // seconds of a step, from a profile
  Advice,     // which ways `gradsync advise` compares, and what each changes in a script
  Pace        // a paced model, which waits in place of computing
};

struct Axis {
  std::string name;
  std::string help;       // a sentence
  std::string expected;   // which values there are, for messages
  nlohmann::json schema;  // of a value
  // Puts `value` into the cell. Errors: std::invalid_argument whose text is `expected`.
  std::function<void(Cell&, const nlohmann::json&)> set;
  std::function<nlohmann::json(const Cell&)> get;
  int Cell::*number = nullptr;  // the field, where it is one

  std::string wrapper;  // under any other it means nothing, and has its default; "": under all
  bool is_written_if_any = false;  // 0 means that there is none, and is not written
  // A lever against running out of memory: it trades memory of a rank for time of a step. The
  // training computes the same sums, to the last digit or in another order.
  bool trades_memory = false;
  bool decides_memory = false;  // cells that differ in it are compared by what they hold
  // Under DDP it changes how a step communicates or its optimizer steps, and not what it trains on.
  bool changes_way_alone = false;
  bool is_work = false;  // it says which work a cell does, and not how

  // Returns which of its values a model can have; null: every model can have all of them.
  models::Ability ability = nullptr;
  // Each clash: whether a cell allows only the default, and a sentence that says what goes with
  // such a cell, with {wrapper} and other axes in braces. An option of another wrapper goes with
  // all cells.
  std::vector<std::pair<bool (*)(const Cell&), std::string>> clashes;

  // Which values each prediction knows; an empty list: all of them. A prediction that is not here
  // knows the default alone.
  std::map<Prediction, std::vector<std::string>> known_to;
  std::map<Prediction, std::string> unknown_because;  // "": nothing more to say
  bool is_recorded = false;  // a profile has one value of it, which is not in the cell

  // Return the same axis with more properties.
  Axis if_any() const { return with(&Axis::is_written_if_any, true); }
  Axis under(const std::string& its) const { return with(&Axis::wrapper, its); }
  Axis lever() const { return with(&Axis::trades_memory, true); }
  Axis about_memory() const { return with(&Axis::decides_memory, true); }
  Axis about_way() const { return with(&Axis::changes_way_alone, true); }
  Axis work() const { return with(&Axis::is_work, true); }
  Axis needs(models::Ability its) const { return with(&Axis::ability, its); }
  Axis clash(bool (*with_cell)(const Cell&), const std::string& expected) const;
  Axis recorded() const { return with(&Axis::is_recorded, true); }
  Axis known(const std::vector<Prediction>& to) const { return known_as({}, to); }
  Axis known_as(const std::vector<std::string>& values, const std::vector<Prediction>& to) const;
  Axis unknown(Prediction to, const std::string& because) const;

 private:
  template <typename Value>
  Axis with(Value Axis::*field, const Value& value) const {
    Axis changed = *this;
    changed.*field = value;
    return changed;
  }
};

// Every axis; in a product the last one, strategy, varies fastest.
const std::vector<Axis>& axes();

// Returns the default of an axis, as JSON.
nlohmann::json default_of(const Axis& axis);

// Returns the JSON schema of a plan's list of the axis's values, with its default. "lever",
// "work", "only_under" (other cells do not have it) and "left_out" (of cells where it is 0) are for
// plot/, which does not know the rows.
nlohmann::ordered_json list_schema(const Axis& axis);

// Returns a results file's cell with the fields that older files left out, each at its default. A
// cell without a micro-batch size is not a plan's cell and stays as it is.
nlohmann::json whole_cell(nlohmann::json written);

// Returns whether a rank runs both cells with one model, wrapper and optimizer. Each trial then
// tells it the fields in which the cells differ.
bool share_a_workload(const Cell& a, const Cell& b);

// Largest count a plan may ask for; a larger one is more likely a typing error.
inline constexpr int kLargestCount = 1'000'000;

// Returns the product of the lists in `cells`. An absent axis has its default alone. `path` is the
// place in the file ("cells.").
// Errors: ConfigError for an unknown axis, an empty list, a wrong or repeated value, or a strategy
// that its wrapper does not have.
std::vector<Cell> multiply_out(const nlohmann::json& cells, const std::string& file,
                               const std::string& path);

}  // namespace gradsync::plan
