#include "harness/launch/link_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gradsync::launch {

namespace {
// Larger: more free bytes. Smaller: the line idles while a timer is late or a sender is
// descheduled.
constexpr double kBurstSeconds = 500e-6;
constexpr int kSmallestBurst = 16 * 1024;
constexpr int kLargestBatch = 65536;  // the kernel's own limit for IPv4
// Larger: fewer drops where several senders meet in one queue, more delay for the last of them.
constexpr const char* kQueue = "100ms";
constexpr double kFramePayload = 1448.0;   // MTU 1500 less IP, TCP and timestamp option
constexpr double kFrame = 1514.0;          // what tbf counts: MTU and Ethernet header
constexpr double kAcknowledgement = 66.0;  // the headers of such a frame alone
}  // namespace

LinkShape shape_link(double rate_bits_per_s) {
  LinkShape shape;
  shape.rate_bits_per_s = rate_bits_per_s;
  shape.burst_bytes =
      std::max(kSmallestBurst, static_cast<int>(rate_bits_per_s / 8 * kBurstSeconds));
  shape.gso_max_bytes = std::min(shape.burst_bytes / 2, kLargestBatch);
  return shape;
}

std::string tbf_command(const std::string& device, const LinkShape& shape) {
  return fmt::format("qdisc add dev {} root tbf rate {:.0f}bit burst {}b latency {}\n", device,
                     std::max(8.0, shape.rate_bits_per_s), shape.burst_bytes, kQueue);
}

double payload_bits_per_s(double rate_bits_per_s) {
  return rate_bits_per_s * (kFramePayload / kFrame);
}

double share_beside_acknowledgements(const LinkShape& shape) {
  const double frames = std::max(1.0, std::floor(shape.gso_max_bytes / kFramePayload));
  return frames * kFrame / (frames * kFrame + kAcknowledgement);
}

}  // namespace gradsync::launch
