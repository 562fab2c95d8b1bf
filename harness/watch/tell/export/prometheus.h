// A watched job in Prometheus' text format, for the textfile collector of node_exporter.
//
// Names and units are by Prometheus' conventions: base units as suffixes, `_total` for what only
// grows. The gauges are of the step that most steps are like, as on the page; rates come from the
// counters. What is not known has no line.
#pragma once

#include <string>

#include "harness/watch/judge/watched.h"

namespace gradsync::watch {

// Returns the whole file. `job`: the value of the label on each line, any text.
std::string prometheus_text(const Watched& watched, const std::string& job, bool is_running);

}  // namespace gradsync::watch
