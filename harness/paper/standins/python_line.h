// Where a Python job is, asked from below it.
#pragma once

#include <string>

namespace gradsync::paper {

// Returns "train.py:42", the innermost line that is not torch's own; empty where this thread runs
// no Python. Takes the interpreter's lock: the caller holds none of its own.
std::string line_of_python();

}  // namespace gradsync::paper
