// What others say of a fabric's links, for tests: iperf3, which is trusted, and the kernel itself,
// by iproute2. Read back, a link's shape is exact, however busy the machine is.
#pragma once

#include <string>
#include <vector>

#include "harness/launch/fabric.h"

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

// Returns the bits per second of payload that rank 0 received from rank 1 in one second of TCP.
// Errors: std::runtime_error with iperf3's words where it got none.
double iperf3_bits_per_s(const Fabric& fabric);

}  // namespace gradsync::launch
