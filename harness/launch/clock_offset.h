// The offset of another host's clock from ours, and its error, from pings.
//
// A question leaves at t0 and its answer, which holds the other clock's reading, arrives at t1. The
// reading was taken somewhere between the two, so the offset is known to +- half the round trip,
// however long each way took. The shortest of many round trips says most (Cristian 1989, as in
// NTP).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
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

// The clock of a node's host over a run, as its context has it. Unset inside: not known.
struct HostClock {
  int node = 0;
  std::string host;
  std::optional<double> offset_s;
  std::optional<double> error_s;                     // at every moment, taking the drift as steady
  std::optional<std::optional<double>> drift;        // seconds per second
  std::optional<std::optional<double>> drift_error;  // the bound that both errors put on it
  std::string reason;                                // why it was not compared
};

void to_json(nlohmann::json& out, const HostClock& clock);

// Returns the clock, without its node, from one measurement before the run and one after it. Pure.
HostClock describe_clock(const ClockOffset& before, const ClockOffset& after);

}  // namespace gradsync::launch
