// A link's constants from collectives that were timed alone on it.
//
// By collective_time() the seconds of a collective are linear in 1 / rate, in a message's latency
// and in what the host costs per collective. The fit finds them, none below 0, by least squares of
// the relative errors, so that small messages count as much as large ones (Lawson and Hanson,
// "Solving Least Squares Problems", 1974, on nonnegative solutions; every subset of the three
// unknowns is tried). The number of ranks and the operation fix how many messages follow each
// other. With one of each, latency and host costs cannot be separated, and all is counted as the
// host's. Messages of one size show a rate alone.
//
// The host's cost per byte makes the link look slower, and is part of its rate.
#pragma once

#include <optional>
#include <span>

#include "harness/predict/measured_collectives.h"
#include "harness/predict/prediction.h"

namespace gradsync::predict {

struct FittedLink {
  double bytes_per_s = 0;  // of payload: a node's link, or a rank's where all were on one node
  double latency_s = 0;
  double collective_s = 0;
  bool is_latency_apart = false;                    // else it is in collective_s
  std::optional<bool> scatters_by_all_reduce = {};  // unset: no reduce_scatter was timed
  std::optional<bool> gathers_half_late = {};       // unset: no all_gather was timed
  double error_rms = 0;                             // of predicted / measured - 1
  // Residuals of the fit, 1 sd: of collectives that spend four fifths of their time on the wire,
  // and of host and latency in the others. Unset: fewer than three of them.
  std::optional<double> rate_doubt = {};
  std::optional<double> host_doubt = {};
};

// Returns what collective_time() says of a row with these constants, in seconds.
double predicted_s(const FittedLink& link, const MeasuredCollective& row);

// `rows` are of one kind of link, on one node or all on several.
// Errors: ConfigError if no rate follows from them.
FittedLink fit_link(std::span<const MeasuredCollective> rows);

}  // namespace gradsync::predict
