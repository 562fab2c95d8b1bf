// The pages of a gate: what a terminal shows, what a CI job puts into its summary, and one for a
// browser.
#pragma once

#include <string>

#include "harness/gate/gate_report.h"
#include "harness/text/text_width.h"

namespace gradsync::gate {

// Columns that a terminal has at least, and that the text keeps to.
using text::kTerminalWidth;

// Returns a gate (gate_report.h) as text: the two that were compared; of every row its verdict, by
// how much it is slower, and below it why where it did not pass; the claims; and the line that CI
// logs are searched for, "VERDICT: ... exit N". Every number comes from `report`.
// Lines have at most `width` columns where their words allow it.
std::string gate_text(const GateReport& report, std::size_t width = kTerminalWidth);

// Returns that line, with a newline.
std::string verdict_line(const GateReport& report, std::size_t width = kTerminalWidth);

// Returns the same as Markdown: tables of rows and claims with both measures, reasons as a list,
// then builds and settings.
std::string gate_markdown(const GateReport& report);

// Returns a page that argues, as one HTML file: whether it passed, each row with its effect on one
// scale, and what was compared.
std::string gate_html(const GateReport& report);

}  // namespace gradsync::gate
