// A gate without turns: a run against a stored one, or against fixed claims.
#pragma once

#include <string>

#include "harness/arms/gate_question.h"
#include "harness/gate/gate_report.h"

namespace gradsync::arms {

// Runs the plan with the candidate into `directory`, and holds it against a stored run.
gate::GateReport compare_with_stored(const GateQuestion& question, const std::string& directory);

// Judges the claims of the gate file: of a stored run, or of a fresh one in `directory`.
gate::GateReport judge_claims(const GateQuestion& question, const std::string& directory);

bool has_claims(const GateQuestion& question);

// Adds to `report` how the claims of the gate file, if any, turned out in `run`.
void add_claims(gate::GateReport& report, const GateQuestion& question,
                const report::FinishedRun& run);

}  // namespace gradsync::arms
