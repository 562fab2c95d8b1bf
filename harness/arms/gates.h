// The kinds of gate: builds or training commands that take turns, stored runs, and the gate itself.
// Errors throughout: run::Interrupted.
#pragma once

#include <string>

#include "harness/arms/gate_question.h"
#include "harness/arms/gate_stages.h"
#include "harness/gate/error_rates.h"
#include "harness/gate/gate_report.h"

namespace gradsync::arms {

// Two builds of this program against each other, on the rows of a plan. Blocks for as long as the
// time budget says, or less; how far it is goes to stderr.
// Errors: ConfigError for builds, rows or a budget that make no gate; EnvironmentError for a build
// whose times mean nothing.
GateFindings compare_builds(const GateQuestion& question);

// Two training commands against each other: what they communicate in a step, exactly, and how long
// their steps take, in turns. Blocks as compare_builds. The output of the jobs goes to files in
// `directory`. A job that is over before a verdict leaves it undecided.
// Errors: ConfigError and EnvironmentError as JobArms; ConfigError for a budget that makes no gate.
GateFindings compare_jobs(const GateQuestion& question, const std::string& directory);

// Runs the plan with the candidate into `directory`, and holds it against a stored run.
gate::GateReport compare_with_stored(const GateQuestion& question, const std::string& directory);

// Judges the claims of the gate file: of a stored run, or of a fresh one in `directory`.
gate::GateReport judge_claims(const GateQuestion& question, const std::string& directory);

bool has_claims(const GateQuestion& question);

// Adds to `report` how the claims of the gate file, if any, turned out in `run`.
void add_claims(gate::GateReport& report, const GateQuestion& question,
                const summary::FinishedRun& run);

// The gate's own error rates: builds whose difference is known take turns as in a gate. Lets the
// baseline build (this program, where none was named) take turns with itself, once for each share
// of extra work in every round of starts, in random order; keeps the turns of each share in a file
// of its own in `directory`, written after every start; and returns what the gate decides on all
// that lies there, of earlier self-tests too. Blocks: every start has Settings::start_turns turns
// of every row, and none ends early. Errors: as compare_builds; EnvironmentError where a row cannot
// be measured; ConfigError, before anything runs, where other rows or blocks lie there.
gate::ErrorRates measure_error_rates(const GateQuestion& question, const std::string& directory);

}  // namespace gradsync::arms
