// The sentences on a gate that its pages share: terminal, Markdown and HTML.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/gate/gate_report.h"
#include "harness/text/text_table.h"

namespace gradsync::gate {

// "3.1 % slower [2.7, 3.6]"; "-" where it is not known.
std::string measure_text(const RowReport& row, Measure measure);

// Returns the ratio of a measured claim, "2.20x [2.11, 2.30]".
std::string ratio_words(const std::optional<results::StepRatio>& ratio);

// Return how many turns are behind its times, those of the confirmation included, and whether any
// are.
std::size_t turns_of(const RowReport& row);
bool took_turns(const RowReport& row);

// Why a row did not pass: every difference of its counts, or else its one reason.
std::vector<std::string> reasons_of(const RowReport& row);
std::vector<std::string> reasons_of(const ClaimOutcome& claim);

// Returns the reasons of every row and claim, with its name. `names`: of the rows.
std::vector<std::string> all_reasons(const GateReport& report,
                                     const std::vector<std::string>& names);

// "margin 1 %, smallest effect 3 % (mean 10 %), at most 1 % false alarms"
std::string settings_text(const GateReport& report);

// "1 pass, 2 regressions, 1 undecided"
std::string tally(const GateReport& report);

// "PASSED" or "NOT PASSED", and what the program exits with.
std::string passed_text(const GateReport& report);
int exit_status(const GateReport& report);

// What a reader must know, and the differences that forbid a comparison of times or may be in it.
std::vector<std::string> all_notes(const GateReport& report);

// A row for each, its verdict first; columns of times only where there are any.
text::TextTable row_table(const std::vector<RowReport>& rows,
                          const std::vector<std::string>& names);
text::TextTable claim_table(const std::vector<ClaimOutcome>& claims);

struct SideWords {
  std::string which;  // "baseline" or "candidate"
  std::string name;   // "build/before"
  std::string build;  // what is known of it
};
// Returns the sides that there are: claims about one run have no baseline.
std::vector<SideWords> sides_of(const GateReport& report);

}  // namespace gradsync::gate
