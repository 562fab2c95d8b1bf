// Exposed communication: the part of a step in which communication ran and no computation did.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace gradsync::measure {

using Span = std::pair<std::int64_t, std::int64_t>;  // [start, end), nanoseconds

// Returns the length, in nanoseconds, of (union of `communication`) intersected with (union of
// `waiting`): the times when something was on the wire and this rank had nothing else to do.
// The spans may overlap and come in any order. Pure.
std::int64_t exposed_ns(std::vector<Span> communication, std::vector<Span> waiting);

}  // namespace gradsync::measure
