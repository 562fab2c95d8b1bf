// What the link between two namespaces really carries: a small TCP sender and receiver, each a
// child process in its own network.
//
// Three things in one connection: bytes bounced for the round trip; short bursts after idle time
// for the bytes that the shaping lets through for free; a long one, less these, for the sustained
// rate. Each counts bytes from before the first is sent until the last is here, so a busy machine
// makes the link look slower, and never faster by more than the free bytes it hid.
#pragma once

#include <string>

#include "harness/launch/namespaces.h"

namespace gradsync::launch {

struct LinkTest {
  int receiver = 0;  // namespaces of the set
  int sender = 0;
  std::string address;            // the receiver's
  double payload_bits_per_s = 0;  // expected; sizes the bursts
  double duration_s = 1;          // of the long burst, at the expected rate
};

struct LinkMeasurement {
  double payload_bits_per_s = 0;
  double round_trip_s = 0;      // smallest of many
  double free_burst_bytes = 0;  // sent beyond the rate after idle time; largest of a few
  char congestion_control[16] = {};
};

// Blocks for the duration and a third of a second; longer where the link carries less than
// expected. Errors: EnvironmentError.
LinkMeasurement measure_link(const NamespaceSet& namespaces, const LinkTest& test);

}  // namespace gradsync::launch
