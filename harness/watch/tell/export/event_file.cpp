#include "harness/watch/tell/export/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <boost/crc.hpp>
#include <string_view>

namespace gradsync::watch {
namespace {

// What Protocol Buffers call the type of a field on the wire.
enum Wire : unsigned { Varint = 0, Fixed64 = 1, Delimited = 2, Fixed32 = 5 };

template <typename Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  }
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(unsigned number, Wire wire) {
  return varint(number << 3 | wire);
}

std::string delimited(unsigned number, std::string_view bytes) {
  return key(number, Delimited) + varint(bytes.size()) + std::string(bytes);
}

// A TFRecord's sum: rotated, so that a file of records may be in a record.
std::string masked_sum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc32c;
  crc32c.process_bytes(bytes.data(), bytes.size());
  return little_endian(std::rotr(static_cast<std::uint32_t>(crc32c.checksum()), 15) + 0xa282ead8U);
}

std::string record(std::string_view event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  return length + masked_sum(length) + std::string(event) + masked_sum(event);
}

// Event.wall_time
std::string at_time(double time_s) {
  return key(1, Fixed64) + little_endian(std::bit_cast<std::uint64_t>(time_s));
}

// Summary.Value: tag and simple_value.
std::string scalar(const std::string& tag, double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return delimited(1, tag) + key(2, Fixed32) + little_endian(bits);
}

}  // namespace

std::string first_record(double time_s) {
  return record(at_time(time_s) + delimited(3, "brain.Event:2"));
}

std::string scalars_record(double time_s, std::int64_t step,
                           const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [tag, value] : values) summary += delimited(1, scalar(tag, value));
  return record(at_time(time_s) + key(2, Varint) + varint(static_cast<std::uint64_t>(step)) +
                delimited(5, summary));
}

std::string event_file_name(double time_s) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("events.out.tfevents.{:.0f}.{}.{}.gradsync", time_s, host.data(), ::getpid());
}

}  // namespace gradsync::watch
