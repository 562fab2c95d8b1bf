// The tables that the guide published, for the pages that print ours beside them.
#pragma once

#include "harness/base/program_files.h"
#include "harness/report/published.h"

namespace gradsync::session {

// Returns those that come with the program. Errors: ConfigError where one is no such table.
inline report::References published_tables() {
  return report::read_references(data_file("results/reference"));
}

}  // namespace gradsync::session
