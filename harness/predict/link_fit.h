// A link's constants from collectives that were timed alone on it.
//
// By collective_time() the seconds of a collective are linear in 1 / rate, in a message's latency
// and in what the host costs per collective. These are sought, none below 0, by least squares of
// the relative errors, so that small messages count as much as large ones (Lawson and Hanson,
// "Solving Least Squares Problems", 1974, on what is not negative; of three unknowns every subset
// is tried). A number of ranks and an operation send a fixed number of messages one behind the
// other: with one of each, latency and host cannot be told apart, and all is the host's. Messages
// of one size tell a rate alone.
//
// What the host takes per byte slows the link down as seen from here, and is in its rate.
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
  // What the fit leaves over, 1 sd: of collectives that are the wire's by four fifths, and of the
  // rest's host and latency. Unset: fewer than three of them.
  std::optional<double> rate_doubt = {};
  std::optional<double> host_doubt = {};
};

// Returns what collective_time() says of a row with these constants, in seconds.
double predicted_s(const FittedLink& link, const MeasuredCollective& row);

// `rows` are of one kind of link, on one node or all on several.
// Errors: ConfigError where they tell no rate.
FittedLink fit_link(std::span<const MeasuredCollective> rows);

}  // namespace gradsync::predict
