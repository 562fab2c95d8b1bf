#include "harness/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace gradsync {
namespace {

using Unit = std::pair<std::string_view, double>;

// Returns number x unit for text like "12.5MiB"; throws `expected` when it is not of that form.
template <std::size_t N>
double parse_quantity(std::string_view text, const std::array<Unit, N>& units,
                      const char* expected) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && std::isfinite(number) && number >= 0) {
    const std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    for (const auto& [name, factor] : units) {
      if (suffix == name) return number * factor;
    }
  }
  throw std::invalid_argument(expected);
}

}  // namespace

double parse_rate_bits_per_s(std::string_view text) {
  static constexpr std::array<Unit, 4> kUnits{
      {{"bps", 1.0}, {"Kbps", 1e3}, {"Mbps", 1e6}, {"Gbps", 1e9}}};
  const char* expected = "a positive rate with its unit, such as \"1Gbps\" or \"200Mbps\"";
  const double rate = parse_quantity(text, kUnits, expected);
  if (rate <= 0) throw std::invalid_argument(expected);
  return rate;
}

std::int64_t parse_size_bytes(std::string_view text) {
  static constexpr std::array<Unit, 7> kUnits{{{"B", 1.0},
                                               {"KB", 1e3},
                                               {"MB", 1e6},
                                               {"GB", 1e9},
                                               {"KiB", 0x1p10},
                                               {"MiB", 0x1p20},
                                               {"GiB", 0x1p30}}};
  const char* expected = "a size with its unit, such as \"25MiB\" or \"1GB\"";
  const double size = parse_quantity(text, kUnits, expected);
  if (size >= 0x1p63) throw std::invalid_argument(expected);
  return std::llround(size);
}

double parse_duration_s(std::string_view text) {
  static constexpr std::array<Unit, 6> kUnits{
      {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}}};
  double sum_s = 0;
  do {
    const std::size_t end = text.find_first_of("0123456789.", text.find_first_of("numsh"));
    const std::string_view part = text.substr(0, end);
    sum_s += parse_quantity(part, kUnits, "a duration with its unit, such as \"50us\" or \"5m\"");
    text.remove_prefix(part.size());
  } while (!text.empty());
  return sum_s;
}

double parse_percent(std::string_view text) {
  static constexpr std::array<Unit, 1> kUnits{{{"%", 1.0}}};
  // Divided, not multiplied by 0.01: 3% is then the very number that 0.03 is.
  return parse_quantity(text, kUnits, "a percentage, such as \"3%\" or \"0.5%\"") / 100;
}

std::string format_bytes(double bytes) {
  if (bytes < 0x1p10) return fmt::format("{:.0f} B", bytes);
  if (bytes < 0x1p20) return fmt::format("{:.1f} KiB", bytes / 0x1p10);
  if (bytes < 0x1p30) return fmt::format("{:.1f} MiB", bytes / 0x1p20);
  return fmt::format("{:.2f} GiB", bytes / 0x1p30);
}

std::string format_rate(double bits_per_s) {
  if (bits_per_s >= 1e9) return fmt::format("{:.2f} Gbit/s", bits_per_s / 1e9);
  if (bits_per_s >= 1e6) return fmt::format("{:.1f} Mbit/s", bits_per_s / 1e6);
  return fmt::format("{:.1f} Kbit/s", bits_per_s / 1e3);
}

std::string format_duration(double duration_s) {
  const auto whole = static_cast<std::int64_t>(std::llround(duration_s));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

}  // namespace gradsync
