// Two watched jobs side by side: one before a change and after it, say.
#pragma once

#include <string>

#include "harness/watch/watched.h"

namespace gradsync::watch {

struct NamedJob {
  std::string name;  // the file, say
  Watched watched;
};

// Returns a page: collectives per step, seconds and verdicts of both. Counts and bytes are exact,
// so any difference is one. Times are shown and not compared: the jobs did not take turns.
std::string watch_comparison(const NamedJob& a, const NamedJob& b);

}  // namespace gradsync::watch
