// How a link of a given rate is imitated: token bucket (tbf) and segment size.
//
// tbf lets through `rate`, plus one bucket of `burst_bytes` for free after every idle time; each
// gradient synchronization follows an idle time, so the bucket must be small against a gradient. It
// must also hold what the line carries until a delayed timer refills it, and one whole segment
// batch, or else tbf cuts batches into single packets at a great cost in CPU. So both are sized in
// time of the line, and batches (GSO) are made half a bucket at most.
//
// Measured (veth, kernel 6.18, a 2-core VM with other work on it, ranks at high priority): TCP
// stream against 1448/1514 of the rate; KiB free after idle; CPU of sender and receiver together.
//   20 Mbit/s  16 KiB bucket   1.000   15 KiB free    1 % of a core
//   200 Mbit/s 16 KiB          0.999   13 KiB         5 %
//   1 Gbit/s   61 KiB          0.999   48 KiB         7 %
//   4 Gbit/s   244 KiB         0.999  190 KiB         9 %
// A fixed 256 KiB bucket frees 242 KiB at 200 Mbit/s, 3 % of an 8.7 MB gradient. 250 us instead of
// 500 frees half as much, but gloo's all-reduce then reached 96.7 % of the line at 1 Gbit/s instead
// of 98.5 (64 MiB, two ranks; 99.2 at 200 Mbit/s): a bucket also covers the sender's short pauses.
// `peakrate` was not used: its own bucket of one batch is the same gift again, and what it holds
// back is only handed out more slowly. No retransmission was seen in any of these: the queue that
// is shaped is the sender's own, and TCP waits for it.
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

// Returns how much of that is left while as much comes back, as in a ring of two ranks: each batch
// of segments that arrives is acknowledged by a frame, on the line that carries this side's own.
// Counted at the queue, bytes beyond those of the data at 60, 152 and 400 Mbit/s: 0.81, 0.71 and
// 0.53 % (0.01 % where nothing comes back); this says 0.87, 0.87 and 0.54 %.
double share_beside_acknowledgements(const LinkShape& shape);

}  // namespace gradsync::launch
