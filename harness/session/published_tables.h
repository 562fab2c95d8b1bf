// The tables that the guide published, for the pages that print ours beside them.
#pragma once

#include "harness/report/published.h"
#include "harness/session/paths.h"

namespace gradsync::session {

// Returns those that this checkout has. Errors: ConfigError where one is no such table.
inline report::References published_tables() {
  return report::read_references(source_file("results/reference"));
}

}  // namespace gradsync::session
