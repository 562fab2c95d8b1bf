// The reports on a watched job: for a terminal, as HTML, as CSV, and beside another one.
#pragma once

#include <string>

#include "harness/account/account_verdict.h"
#include "harness/text/text_width.h"
#include "harness/watch/judge/watched.h"

namespace gradsync::watch {

inline constexpr std::size_t kPageWidth = text::kTerminalWidth;

// Returns the page for a terminal, 80 columns where words allow it: the verdicts with what to
// change, then collectives per step, needed and in excess; these two only where it is known what
// would be enough.
std::string watch_page(const Watched& watched);

// Returns what a page says of it: the matrix of weights, and the verdicts.
std::string account_page(const account::GradientAccount& account, std::size_t width);

// Returns the page as one HTML file: the verdict, the line to change, what a step sends now and
// what would be enough. `name`: what the job is called, its command or its file.
std::string watch_html(const Watched& watched, const std::string& name);

// Returns a line for each operation of a step: how often and how many bytes now, those that would
// be enough, and those in excess. Empty where it is not known.
std::string watch_csv(const Watched& watched);

// Two watched jobs side by side: one before a change and after it, say.
struct NamedJob {
  std::string name;  // the file, say
  Watched watched;
};

// Returns a page: collectives per step, seconds and verdicts of both. Counts and bytes are exact,
// so any difference is one. Times are shown and not compared: the jobs did not take turns.
std::string watch_comparison(const NamedJob& a, const NamedJob& b);

}  // namespace gradsync::watch
