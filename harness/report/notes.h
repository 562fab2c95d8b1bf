// The lines below a table: what an interval means, and why a row has no numbers.
#pragma once

#include "harness/summary/part_view.h"
#include "harness/text/blocks.h"

namespace gradsync::report {

// Returns the notes; none where nothing needs saying.
text::Bullets notes(const summary::PartView& part);

}  // namespace gradsync::report
