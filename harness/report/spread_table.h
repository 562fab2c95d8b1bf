// How single steps spread, and how far each row is from what its link allows.
#pragma once

#include "harness/summary/part_view.h"
#include "harness/text/blocks.h"

namespace gradsync::report {

// Returns a table of the part's rows: median, 5 and 95 % quantiles and the largest of the slowest
// rank's steps; where a row has a bound (lower_bound.h), also the bound and s/step over it. Its
// head says what they are. Nothing where no row has a time.
text::Blocks spread_table(const summary::PartView& part);

}  // namespace gradsync::report
