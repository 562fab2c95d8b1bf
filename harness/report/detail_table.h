// The detailed table: one row per cell, with what it cost and what it sent.
#pragma once

#include "harness/summary/part_view.h"
#include "harness/text/blocks.h"

namespace gradsync::report {

// Returns a line that says what the columns mean, the table, and for a scaled part the full-size
// bytes. A column appears only if it says something; a cell without numbers says its status.
text::Blocks detail_table(const summary::PartView& part);

}  // namespace gradsync::report
