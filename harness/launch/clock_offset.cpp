#include "harness/launch/clock_offset.h"

#include <algorithm>
#include <cmath>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/fields.h"

namespace gradsync::launch {

ClockOffset offset_of(const std::vector<Ping>& pings) {
  GRADSYNC_CHECK(pings.empty(), ==, false);
  const Ping& best = *std::ranges::min_element(
      pings, {}, [](const Ping& ping) { return ping.received_ns - ping.sent_ns; });
  const std::int64_t middle_ns = best.sent_ns + (best.received_ns - best.sent_ns) / 2;
  return {middle_ns, best.remote_ns - middle_ns, (best.received_ns - best.sent_ns + 1) / 2};
}

constexpr auto fields_of(const HostClock*) {
  return std::tuple{GRADSYNC_FIELDS(HostClock, node, host, offset_s, error_s),
                    GRADSYNC_SPARED_FIELDS(HostClock, drift, drift_error, reason)};
}

void to_json(nlohmann::json& out, const HostClock& clock) {
  out = write_fields(clock);
}

HostClock describe_clock(const ClockOffset& before, const ClockOffset& after) {
  const double moved_s = seconds(after.offset_ns - before.offset_ns);
  const double between_s = seconds(after.at_ns - before.at_ns);
  const double errors_s = seconds(before.error_ns + after.error_ns);
  const bool known = between_s > 0;
  // The offset given is the middle of the two; the clocks were at most half the movement away.
  HostClock clock;
  clock.offset_s = seconds(before.offset_ns) + moved_s / 2;
  clock.error_s = std::abs(moved_s) / 2 + seconds(std::max(before.error_ns, after.error_ns));
  clock.drift.emplace();
  clock.drift_error.emplace();
  if (known) {
    clock.drift = moved_s / between_s;
    clock.drift_error = errors_s / between_s;
  }
  return clock;
}

}  // namespace gradsync::launch
