// A watched job as a page that argues: the verdict, the line to change, what a step sends now and
// what would be enough.
#pragma once

#include <string>

#include "harness/watch/watched.h"

namespace gradsync::watch {

// Returns the page as one HTML file. `name`: what the job is called, its command or its file.
std::string watch_html(const Watched& watched, const std::string& name);

}  // namespace gradsync::watch
