// What a gate found, as one JSON object (schema gradsync.gate/1, results/schema/gate.schema.json):
// the page prints it, CI keeps it, the forest plot draws it.
//
// A row has two parts that are decided apart: its counts, exactly, and its times, with known error
// rates. A row is as bad as the worse of the two. An exact difference in any row makes the gate a
// regression, whatever the others are: a row that the machine disturbed hides no lost no_sync.
// Where none differs, the gate is as bad as its worst row or claim.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/gate/claims.h"
#include "harness/gate/counts.h"
#include "harness/gate/rows.h"
#include "harness/gate/settings.h"
#include "harness/gate/verdict.h"
#include "harness/results/run_context.h"
#include "harness/summary/context_difference.h"

namespace gradsync::gate {

inline constexpr const char* kGateSchema = "gradsync.gate/1";

// One of the two that are compared.
struct Side {
  std::string name;          // a build's program, a training command, or a directory of results
  results::Context context;  // what is known of it
};

// What a gate was asked to keep to.
struct Asked {
  Settings settings;
  bool of_turns =
      true;  // false: of stored runs, of which only margin, smallest effect and alpha hold
};

struct RowReport {
  Row row;
  std::optional<RowCounts> counts;   // absent: not compared
  std::optional<RowDecision> times;  // absent: not measured
  std::string no_times_because;      // set where `times` is absent
  bool took_turns = true;            // whether the times come from turns: others have no p-values
  int starts = 0;                    // fresh starts behind the times
  int confirmation_turns = 0;        // 0: nothing was confirmed
};

// Returns whether the row's counts differ from the baseline's by more than chance.
bool differs_exactly(const RowReport& row);

// Returns the verdict on a row: Regression where its counts differ, Unfit where those of the
// baseline tell nothing, else that of its times; without times the counts alone decide.
Verdict verdict_of(const RowReport& row);

// Returns the sentence that explains the verdict; of counts that differ the first.
std::string reason_of(const RowReport& row);

// Returns a name for each row (rows.h).
std::vector<std::string> names_of(const std::vector<RowReport>& rows);

struct GateReport {
  std::string plan;
  Side baseline;
  Side candidate;
  std::optional<Asked> asked;                           // unset: of claims alone
  std::vector<summary::ContextDifference> differences;  // of the contexts
  std::vector<std::string> notes;                       // what a reader must know, a sentence each
  std::vector<RowReport> rows;
  std::string claims_file;  // "" where there are no claims
  std::vector<ClaimOutcome> claims;
  std::optional<double> duration_s;     // how long it took
  std::optional<double> time_budget_s;  // how long it might have taken
};

// Returns the verdict of the gate.   Errors: InternalError without rows and claims.
Verdict verdict_of(const GateReport& report);

// Returns the object, with "verdict" and "exit_status". What is not known is null.
nlohmann::json to_json(const GateReport& report);

}  // namespace gradsync::gate
