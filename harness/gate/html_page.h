// A gate as a page that argues: whether it passed, each row with its effect on one scale, and what
// was compared.
#pragma once

#include <string>

#include "harness/gate/gate_report.h"

namespace gradsync::gate {

// Returns the page as one HTML file. Every number comes from `report`.
std::string gate_html(const GateReport& report);

}  // namespace gradsync::gate
