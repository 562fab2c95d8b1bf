// What the kernel itself says of the links of the fabrics that this process holds, by iproute2. For
// tests: read back, a link's shape is exact, however busy the machine is.
#pragma once

#include <string>
#include <vector>

namespace gradsync::launch {

struct KernelLink {
  std::string device;
  std::string shaping;         // kind of the queue at its root: "tbf"; "" where none shapes it
  double rate_bits_per_s = 0;  // these three of a tbf
  double burst_bytes = 0;
  double latency_s = 0;
  int gso_max_bytes = 0;
};

// Returns every device of every network namespace that a file descriptor of this process stands
// for, hosts, bridges and switch alike. Errors: std::runtime_error with iproute2's words.
std::vector<KernelLink> kernel_links();

}  // namespace gradsync::launch
