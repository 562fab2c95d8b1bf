// iperf3, which others trust, on a fabric's link. For tests.
#pragma once

#include "harness/launch/fabric.h"

namespace gradsync::launch {

// Returns the bits per second of payload that rank 0 received from rank 1 in one second of TCP.
// Errors: std::runtime_error with iperf3's words where it got none.
double iperf3_bits_per_s(const Fabric& fabric);

}  // namespace gradsync::launch
