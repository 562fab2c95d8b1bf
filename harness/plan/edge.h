// Where along one axis does a cell stop fitting? Bisection, which trusts that the axis is monotone
// only after it has checked.
//
//   largest    from = 1 [fits fits fits fits | no no no no] to = 64       4 is the edge
//   smallest   from = 1 [no no no no no no | fits fits fits] to = 4096    the first that fits is
//
// Every value that bisection tries lies between one that fits and one that does not, so it finds an
// edge in anything. Further values, evenly spread over both sides, therefore check that there is
// only one edge. Pure: the caller probes the values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace gradsync::plan {

enum class Wanted { Largest, Smallest };  // of the values that fit
enum class ProbeVerdict { Fits, DoesNotFit, Unknown };

struct EdgeQuestion {
  Wanted wanted = Wanted::Largest;
  std::int64_t from = 1;  // from < to; both are tried first
  std::int64_t to = 2;
  int checks = 2;  // further values on each side of the edge; fewer where a side has fewer
};

struct Probe {
  ProbeVerdict verdict = ProbeVerdict::Unknown;
  // For a value that fits: the smallest value that would have fit, as measured there (a peak for a
  // budget). It is believed until it is wrong once. Nothing: not known.
  std::optional<std::int64_t> needed;
};

struct Edge {
  enum class Outcome { Found, AllFit, NoneFits, NotMonotone, Stopped };
  Outcome outcome = Outcome::Stopped;
  // Found: the edge, and its neighbour that does not fit. AllFit, NoneFits: the end that is hardest
  // or easiest to fit. NotMonotone: two values in the wrong order. Stopped: neither.
  std::optional<std::int64_t> fits;
  std::optional<std::int64_t> does_not_fit;
};

// Returns the edge of what fits between the ends. `probe` is called at most once for a value: for
// both ends; at most ceil(log2(to - from)) times to find the edge, and twice more if a needed value
// is wrong; and at most 2 x checks times to confirm it. The first Unknown stops the search.
// Errors: whatever `probe` throws.
Edge find_edge(const EdgeQuestion& question, const std::function<Probe(std::int64_t)>& probe);

}  // namespace gradsync::plan
