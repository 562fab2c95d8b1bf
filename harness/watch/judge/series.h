// A watched job, or one step of it, in five numbers that can be drawn over time: what Prometheus,
// TensorBoard, the lines of --steps-json and the callbacks of harness/python are given.
//
// A number that is not known is absent, never 0: one process has nothing to synchronize, and on
// NCCL it is not known when a collective was complete.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/known.h"

namespace gradsync::watch {

struct Series {
  Known<std::int64_t> steps;  // optimizer steps that ended so far and were not skipped
  Known<double> exposed_s;    // what a step waits for its synchronizations, late ranks apart
  Known<double> synchronization_share;  // of the step: exposed_s by its seconds
  Known<std::int64_t> excess_bytes;     // of a step and a rank: synchronized more than once
  Known<int> latest_rank;               // the one for which the others wait
  bool operator==(const Series&) const = default;
};

// Returns the numbers that are known, by the names of their fields, in their order.
std::vector<std::pair<std::string, double>> known_values(const Series& series);

// Returns a series of which nothing is known, for that reason.
Series unknown_series(const std::string& because);

struct Watched;
struct Examined;

// Returns the series of the step that most are like: medians, and the rank that was latest most
// often. `watched` must be made from `ranks` and complete, except for the series.
Series series_of_job(const Watched& watched, const std::vector<Examined>& ranks);

// Returns the series of each step of the first rank, by its index in Examined::counts. `steps`
// counts them from 1, skipped ones too.
std::vector<Series> series_of_steps(const Watched& watched, const std::vector<Examined>& ranks);

}  // namespace gradsync::watch
