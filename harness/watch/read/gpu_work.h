// When the GPU of one rank ran what: collectives, computation, copies.
//
// Communication is exposed while a collective's kernel runs and no kernel that computes does;
// copies and memsets (of memory) compute nothing. A collective's kernel runs from when its own rank
// is there until all are, so that its time has the waiting for others in it.
//
// Exposed time is not always waited for: where the host is slower than its GPU, the GPU would have
// had nothing to do anyway.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace gradsync::watch {

struct GpuSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

using GpuSpans = std::vector<GpuSpan>;  // by time; none touches another

// When the host had launched something, and when the GPU had done all that was launched until then.
struct GpuProgress {
  std::int64_t launched_ns = 0;
  std::int64_t done_ns = 0;
};

struct GpuWork {
  GpuSpans communication;
  GpuSpans computation;
  GpuSpans overlapped;                // both of these
  GpuSpans waited;                    // exposed, and the step waits for it
  GpuSpans busy;                      // whatever runs, copies among it
  std::vector<GpuProgress> progress;  // by time
  GpuSpan recorded = {std::numeric_limits<std::int64_t>::min(),
                      std::numeric_limits<std::int64_t>::max()};  // of the host: not beyond
};

struct GpuTimes {
  double span_s = 0;  // from begin to end
  double communication_s = 0;
  double computation_s = 0;
  double overlapped_s = 0;  // both at once
  double exposed_s = 0;     // communication alone
  double waited_s = 0;      // the part of it that the step waits for
  double idle_s = 0;        // nothing runs, not even a copy
};

// Returns the times that these, in any order, cover.
GpuSpans merged(GpuSpans spans);

// Returns for how long `spans` cover the time within `span`.
std::int64_t covered_ns(const GpuSpans& spans, const GpuSpan& span);

// Returns the times that both cover.
GpuSpans intersection(const GpuSpans& a, const GpuSpans& b);

// Returns the work of which these are the collectives, what computes, and all of both and of
// copies, in any order. All exposed time counts as waited for.
GpuWork gpu_work(GpuSpans communication, GpuSpans computation, GpuSpans all);

// Returns the times within `span`.
GpuTimes times_within(const GpuWork& work, const GpuSpan& span);

// Returns the times from when its first work began to when its last one ended.
GpuTimes times_of(const GpuWork& work);

// Returns when the GPU had done what the host had launched until `at_ns`; nothing where that is
// nothing.
std::optional<std::int64_t> done_ns(const GpuWork& work, std::int64_t at_ns);

// Moves all of it by so much.
void shift(GpuWork& work, std::int64_t by_ns);

}  // namespace gradsync::watch
