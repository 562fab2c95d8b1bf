// Quantities as people write them: "10Gbps", "25MiB", "50us", "3%", and back.
//
// A number without a unit is refused: it is the commonest way to be wrong by a factor of eight.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gradsync {

// Returns bits per second. Accepts bps, Kbps, Mbps, Gbps (powers of 1000, bits).
// Errors: std::invalid_argument whose text is what was expected.
double parse_rate_bits_per_s(std::string_view text);

// Returns bytes. Accepts B, KB, MB, GB (powers of 1000) and KiB, MiB, GiB (powers of 1024).
// Errors: std::invalid_argument whose text is what was expected.
std::int64_t parse_size_bytes(std::string_view text);

// Returns seconds. Accepts ns, us, ms, s, m (minutes), h, and what format_duration() writes.
// Errors: std::invalid_argument whose text is what was expected.
double parse_duration_s(std::string_view text);

// Returns a share: 0.03 for "3%".
// Errors: std::invalid_argument whose text is what was expected.
double parse_percent(std::string_view text);

std::string format_bytes(double bytes);          // "1.64 GiB", "12.5 KiB", "7 B"
std::string format_rate(double bits_per_s);      // "7.60 Gbit/s"
std::string format_duration(double duration_s);  // "3m40s", "12s"; for ETAs, not for results

}  // namespace gradsync
