// What a paced model waits on: the host's clock, or a device's queue.
//
// A stretch is a piece of work with a start. Each wait in it lasts until a time since that start,
// so that work between two waits hides in them, and errors do not add up.
#pragma once

#include <cstdint>
#include <memory>

namespace gradsync {
class Clock;
}

namespace gradsync::models {

class Stretch {
 public:
  virtual ~Stretch() = default;

  // Waits until `offset_ns` after the start; not at all where that is past. The host's blocks the
  // calling thread; a device's occupies the current stream and returns at once.
  virtual void await(std::int64_t offset_ns) = 0;
};

class Pace {
 public:
  virtual ~Pace() = default;

  // Returns a stretch that starts now: on a device, when its queue comes to it.
  virtual std::unique_ptr<Stretch> begin() const = 0;

  // Returns a stretch that starts `offset_ns` after `before` did, for work that a GPU's host has
  // asked for by then; where the caller is later than a GPU's host would be, it starts as much
  // later. `before` must come from this pace.
  virtual std::unique_ptr<Stretch> begin_after(const Stretch& before,
                                               std::int64_t offset_ns) const = 0;
};

// Returns the pace of this thread on `clock`, which must outlive it. It forgives half a millisecond
// between two stretches: a GPU's host is that far ahead.
std::shared_ptr<const Pace> host_pace(const Clock& clock);

}  // namespace gradsync::models
