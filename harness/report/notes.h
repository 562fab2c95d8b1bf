// The lines below a table: what an interval means, and why a row has no numbers.
#pragma once

#include <string>

#include "harness/summary/part_view.h"

namespace gradsync::report {

// Returns the notes as Markdown bullets; "" where nothing needs saying.
std::string notes(const PartView& part);

}  // namespace gradsync::report
