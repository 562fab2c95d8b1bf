// How a link of a given rate is imitated: token bucket (tbf) and segment size.
//
// tbf lets through `rate`, plus one bucket of `burst_bytes` for free after every idle time; each
// gradient synchronization follows an idle time, so the bucket must be small against a gradient. It
// must also hold what the line carries until a delayed timer refills it, and one whole segment
// batch, or else tbf cuts batches into single packets at a great cost in CPU. So both are sized in
// time of the line, and batches (GSO) are made half a bucket at most.
//
// Measured (veth, kernel 6.18, one idle 2-core VM), payload of a 3 s iperf3 stream against
// 1448/1514 of the rate, bytes free after idle, share of one core used by sender + receiver:
//   20 Mbit/s  16 KiB / 8 KiB    0.999  15 KiB   1 %      usual 256 KiB bucket, 64 KiB batches,
//   200 Mbit/s 16 KiB / 8 KiB    1.000  12 KiB   3 %      200 Mbit/s: 1.000, 242 KiB, 1 %
//   1 Gbit/s   32 KiB / 16 KiB   0.999  19 KiB   7 %      1 Gbit/s: 1.000, 233 KiB, 4 %
//   2 Gbit/s   64 KiB / 32 KiB   0.999  34 KiB   6 %      (2 Gbit/s with 32 KiB: 0.989, 18 %;
//   4 Gbit/s   128 KiB / 64 KiB  0.999  60 KiB  12 %       4 Gbit/s with 32 KiB: 0.965, 117 %)
// `peakrate` was not used: its own bucket of one batch is the same gift again, and what it holds
// back is only handed out more slowly. No retransmission was seen in any of these: the sender's
// own queue is the one that is shaped, and TCP waits for it.
#pragma once

#include <string>

namespace gradsync::launch {

struct LinkShape {
  double rate_bits_per_s = 0;
  int burst_bytes = 0;    // larger: more free bytes after idle; smaller: loses rate to late timers
  int gso_max_bytes = 0;  // larger: cheaper in CPU; must stay under burst_bytes
};

LinkShape shape_link(double rate_bits_per_s);

// Returns the tc command that shapes what leaves by `device`, for `tc -batch`.
std::string tbf_command(const std::string& device, const LinkShape& shape);

// TCP payload that a line of `rate_bits_per_s` can carry: 1448 bytes of every 1514 of a full frame.
double payload_bits_per_s(double rate_bits_per_s);

}  // namespace gradsync::launch
