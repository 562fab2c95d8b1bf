// Marks in a device's queue, and the moments at which the device reached them: when queued work
// really ran.
//
// A GPU's host runs ahead: it queues a step's work in a fraction of the time the work takes, so its
// own clock says when work was requested and not when it was done. A mark is queued behind the work
// (a CUDA event) and costs a microsecond; nothing waits for it until the block is over. A wait in
// every step would end the running ahead, and with it what is to be measured.
//
// The device counts from one mark to another; one reference, taken while the device is idle, puts
// all of them on the host's steady clock, so that they compare with times of the host.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "harness/base/errors.h"

namespace gradsync::measure {

class Timeline {
 public:
  virtual ~Timeline() = default;

  // Queues a mark behind the work so far in the calling thread's current stream. Returns its
  // number: 0 for the first since forget(). Any thread. Never blocks.
  virtual std::int64_t mark() = 0;

  // Returns the moment of each mark since forget(), by number, as Clock::now_ns() counts.
  // Blocks until the device has reached all of them; `progress` is called whenever it got on.
  // Errors: CommError where it gets no further for the deadline of collectives, or a peer is gone.
  virtual std::vector<std::int64_t> reached(const std::function<void()>& progress) = 0;

  // Drops all marks and takes the reference anew. Blocks until the device is idle.
  virtual void forget() = 0;
};

// How long after an earlier mark, or after the reference (-1), a mark was reached.
struct Gap {
  std::int64_t since = -1;
  double elapsed_ms = 0;
};

// Returns the moment of each mark, in nanoseconds, given that of the reference. Each is measured
// from a mark close before it because a device gives milliseconds as a float, whose steps at a
// minute are 4 us. Every `since` is smaller than its own number. Pure.
inline std::vector<std::int64_t> moments(std::int64_t reference_ns, const std::vector<Gap>& gaps) {
  std::vector<std::int64_t> moments_ns;
  moments_ns.reserve(gaps.size());
  for (const Gap& gap : gaps) {
    GRADSYNC_CHECK(gap.since, <, static_cast<std::int64_t>(moments_ns.size()));
    const std::int64_t since_ns =
        gap.since < 0 ? reference_ns : moments_ns[static_cast<std::size_t>(gap.since)];
    moments_ns.push_back(since_ns + std::llround(gap.elapsed_ms * 1e6));
  }
  return moments_ns;
}

}  // namespace gradsync::measure
