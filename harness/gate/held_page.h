// The pages of a gate of held counts: for a terminal or a log, and for a comment on a change.
#pragma once

#include <string>

#include "harness/gate/gate_report.h"
#include "harness/gate/held_counts.h"

namespace gradsync::gate {

struct HeldPage {
  std::string file;     // of the held counts, as it was named
  std::string command;  // the job, as a shell would be given it
  HeldCounts held;
  HeldCounts seen;
  GateReport report;  // of one row: its differences, the notes and the verdict
};

// Returns a table of what is held and what was seen, Markdown that pastes, the differences as a
// list, and the verdict's line (page.h).
std::string held_text(const HeldPage& page);

// Returns the same for a comment: with a head, what differs in bold, and below it how the file is
// renewed where the change is meant.
std::string held_markdown(const HeldPage& page);

// Returns the comment on a job that failed by itself before a difference was known.
std::string failed_markdown(const std::string& command, const std::string& failure);

// Returns the page on a file that was just written: what it holds.
std::string written_text(const std::string& file, const HeldCounts& counts);

}  // namespace gradsync::gate
