// How far another host's clock is from ours, and how well that is known: ping-pong.
//
// A question leaves at t0 and its answer, which holds the other clock's reading, arrives at t1. The
// reading was taken somewhere between the two, so the offset is known to +- half the round trip,
// whatever the two ways took. The shortest of many round trips says most (Cristian 1989, as in
// NTP).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace gradsync::launch {

struct Ping {
  std::int64_t sent_ns = 0;      // our clock
  std::int64_t received_ns = 0;  // our clock
  std::int64_t remote_ns = 0;    // the other clock, in between
};

// Other clock minus ours, true within +- error_ns at the time at_ns of our clock.
struct ClockOffset {
  std::int64_t at_ns = 0;
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = 0;
};

// Returns what the ping with the shortest round trip says. Pure. `pings` is not empty.
ClockOffset offset_of(const std::vector<Ping>& pings);

// Returns {"offset_s", "error_s", "drift", "drift_error"} from one measurement before the run and
// one after it; the drift is in seconds per second, with the bound that both errors put on it. The
// error covers every moment in between, taking the drift as steady. Pure.
nlohmann::json describe_clock(const ClockOffset& before, const ClockOffset& after);

}  // namespace gradsync::launch
