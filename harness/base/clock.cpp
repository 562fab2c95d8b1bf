#include "harness/base/clock.h"

#include <ctime>

namespace gradsync {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

// Larger wakes more precisely and takes more processor time from the communication threads.
constexpr std::int64_t kSpinNs = 60'000;

std::int64_t read_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * kNanosecondsPerSecond + now.tv_nsec;
}

class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const override { return read_ns(CLOCK_MONOTONIC); }

  void sleep_until_ns(std::int64_t deadline_ns) const override {
    const std::int64_t wake_ns = deadline_ns - kSpinNs;
    if (wake_ns > now_ns()) {
      const timespec wake{wake_ns / kNanosecondsPerSecond, wake_ns % kNanosecondsPerSecond};
      while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) != 0) {
      }
    }
    while (now_ns() < deadline_ns) {
    }
  }
};

}  // namespace

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

std::int64_t thread_processor_ns() {
  return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

std::int64_t process_processor_ns() {
  return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

std::string utc_timestamp(bool compact) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, compact ? "%Y%m%dT%H%M%SZ" : "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

double utc_seconds() {
  return seconds(read_ns(CLOCK_REALTIME));
}

}  // namespace gradsync
