// Time. The only code of the suite that reads a clock; everything else is handed a Clock.
//
// CLOCK_MONOTONIC, because it never jumps and is one and the same for all processes and network
// namespaces of a host: times of two ranks on one machine can be subtracted.
#pragma once

#include <cstdint>
#include <string>

namespace gradsync {

class Clock {
 public:
  virtual ~Clock() = default;

  // Nanoseconds since an arbitrary point, the same for all processes of this host.
  virtual std::int64_t now_ns() const = 0;

  // Blocks the calling thread until now_ns() >= deadline_ns. Returns at once if that is past.
  virtual void sleep_until_ns(std::int64_t deadline_ns) const = 0;
};

// The machine's clock; sleeps, then spins through the last 60 us so that it wakes within a
// microsecond or two instead of the scheduler's 50.
const Clock& steady_clock();

// Return the processor time that the calling thread, or all threads of this process, have used
// since they began, in nanoseconds.
std::int64_t thread_processor_ns();
std::int64_t process_processor_ns();

// A clock that stands still until told otherwise; sleeping moves it. For tests.
class FakeClock : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_; }
  void sleep_until_ns(std::int64_t deadline_ns) const override {
    if (deadline_ns > now_ns_) now_ns_ = deadline_ns;
  }
  void advance_ns(std::int64_t duration_ns) { now_ns_ += duration_ns; }

 private:
  mutable std::int64_t now_ns_ = 1'000'000'000;
};

inline double seconds(std::int64_t duration_ns) {
  return static_cast<double>(duration_ns) * 1e-9;
}
inline std::int64_t nanoseconds(double duration_s) {
  return static_cast<std::int64_t>(duration_s * 1e9);
}

// UTC wall-clock time as "2026-01-31T12:00:00Z" (`compact`: "20260131T120000Z"). For stamping
// results, never for measuring.
std::string utc_timestamp(bool compact = false);

// The same in seconds since 1970.
double utc_seconds();

}  // namespace gradsync
