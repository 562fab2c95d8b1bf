// What becomes of a function that no stand-in answers: it says its name on stderr, once, and fails.
// harness/paper/symbols.h makes one of these for every name that torch or a header knows.
#pragma once

namespace gradsync::paper {

// Returns the library's error for what it does not support (GRADSYNC_PAPER_REFUSAL).
long refuse(const char* function);

}  // namespace gradsync::paper
