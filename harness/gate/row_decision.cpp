#include "harness/gate/row_decision.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/errors.h"
#include "harness/stats/sample.h"
#include "harness/stats/signed_rank.h"
#include "harness/stats/student.h"

namespace gradsync::gate {

namespace {

constexpr double kDisplayLevel = 0.95;
constexpr double kPowerToDecide = 0.9;

double measure_of(Measure measure, const std::vector<double>& steps, double low_quantile) {
  GRADSYNC_CHECK(steps.size(), >, std::size_t{0});
  const double value =
      measure == Measure::Low ? stats::quantile(steps, low_quantile) : stats::mean(steps);
  GRADSYNC_CHECK(value, >, 0.0);
  return value;
}

std::vector<std::vector<double>> by_start(const std::vector<double>& values,
                                          const std::vector<int>& start) {
  std::vector<std::vector<double>> groups;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i == 0 || start[i] != start[i - 1]) groups.emplace_back();
    groups.back().push_back(values[i]);
  }
  return groups;
}

double squares_about(const std::vector<double>& values, double centre) {
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return sum;
}

// Of `squares`, the sum over candidate and control, of which `free` vary freely (start_spread).
stats::Variance correlated_variance(double squares, double starts, double free) {
  if (free <= 0) return {};
  return {squares / free, free * free / (free + (starts - 1) / 2)};
}

// Student's t: the second test of above_p.
double start_level_p(const std::vector<double>& shifts, double threshold,
                     const stats::Variance& spread) {
  if (spread.degrees <= 0) return 1;
  const double distance = stats::mean(shifts) - threshold;
  const double error = std::sqrt(spread.value / static_cast<double>(shifts.size()));
  if (error == 0) return distance > 0 ? 0 : 1;
  return stats::student_tail(spread.degrees, distance / error);
}

std::vector<double> turned(std::vector<double> values) {
  for (double& value : values) value = -value;
  return values;
}

// Those that say something, moderated; the others as they are.
void moderate(std::vector<StartSpread>& rows, stats::Variance StartSpread::*which) {
  std::vector<stats::Variance> known;
  for (const StartSpread& row : rows) {
    if ((row.*which).degrees > 0) known.push_back(row.*which);
  }
  known = stats::moderated_variances(known);
  std::size_t next = 0;
  for (StartSpread& row : rows) {
    if ((row.*which).degrees > 0) row.*which = known[next++];
  }
}

// Starts after which a distance of `gap` is significant at `level`, with the power above.
double starts_needed(double gap, const stats::Variance& spread, double level) {
  if (gap <= 0) return std::numeric_limits<double>::infinity();
  const double errors = stats::student_t(spread.degrees, 1 - 2 * level) +
                        stats::student_t(spread.degrees, 2 * kPowerToDecide - 1);
  return spread.value * errors * errors / (gap * gap);
}

}  // namespace

Differences Differences::first(std::size_t turns) const {
  const auto cut = [turns](const auto& list) {
    auto copy = list;
    copy.resize(std::min(turns, list.size()));
    return copy;
  };
  return {cut(start), cut(candidate), cut(control)};
}

RowDifferences differences(const std::vector<Turn>& turns, double low_quantile) {
  RowDifferences row;
  for (const Measure measure : kMeasures) {
    Differences& of_measure = row[measure];
    for (const Turn& turn : turns) {
      const double baseline = measure_of(measure, turn.of(Arm::Baseline), low_quantile);
      const double candidate = measure_of(measure, turn.of(Arm::Candidate), low_quantile);
      const double control = measure_of(measure, turn.of(Arm::Control), low_quantile);
      of_measure.start.push_back(turn.start);
      of_measure.candidate.push_back(std::log(candidate / baseline));
      of_measure.control.push_back(std::log(control / baseline));
    }
  }
  return row;
}

std::vector<double> start_shifts(const std::vector<double>& values, const std::vector<int>& start) {
  std::vector<double> shifts;
  for (const auto& group : by_start(values, start)) {
    shifts.push_back(stats::hodges_lehmann_value(group));
  }
  return shifts;
}

StartSpread start_spread(const Differences& row) {
  if (row.turns() == 0) return {};
  const std::vector<double> candidate = start_shifts(row.candidate, row.start);
  const std::vector<double> control = start_shifts(row.control, row.start);
  const auto starts = static_cast<double>(candidate.size());
  const double own = squares_about(candidate, stats::mean(candidate));
  const stats::Variance of_candidate =
      correlated_variance(own + squares_about(control, 0), starts, 2 * starts - 1);
  return {of_candidate, of_candidate,
          correlated_variance(own + squares_about(control, stats::mean(control)), starts,
                              2 * starts - 2)};
}

stats::Variance pooled(const stats::Variance& a, const stats::Variance& b) {
  const double degrees = a.degrees + b.degrees;
  if (degrees <= 0) return {};
  return {(a.value * a.degrees + b.value * b.degrees) / degrees, degrees};
}

std::vector<StartSpread> moderated(const std::vector<StartSpread>& rows) {
  std::vector<StartSpread> result = rows;
  moderate(result, &StartSpread::slower);
  moderate(result, &StartSpread::control);
  return result;
}

double above_p(const std::vector<double>& values, const std::vector<int>& start, double threshold,
               const stats::Variance& spread) {
  if (values.empty()) return 1;
  return std::max(stats::signed_rank_p(values, threshold),
                  start_level_p(start_shifts(values, start), threshold, spread));
}

PValues p_values(const Differences& row, const StartSpread& spread, double margin,
                 double smallest_effect) {
  const double slower = std::log1p(margin);
  return {
      above_p(row.candidate, row.start, slower, spread.slower),
      above_p(turned(row.candidate), row.start, -std::log1p(smallest_effect), spread.not_slower),
      above_p(row.control, row.start, slower, spread.control),
      above_p(turned(row.control), row.start, slower, spread.control)};
}

std::optional<Effect> effect_of(const std::vector<double>& values, const std::vector<int>& start,
                                const stats::Variance& spread) {
  if (values.empty()) return std::nullopt;
  const stats::Shift shift = stats::hodges_lehmann(values, kDisplayLevel);
  Effect effect{std::expm1(shift.value), std::nullopt};
  if (!shift.interval || spread.degrees <= 0) return effect;
  const std::vector<double> shifts = start_shifts(values, start);
  const double centre = stats::mean(shifts);
  const double half = stats::student_t(spread.degrees, kDisplayLevel) *
                      std::sqrt(spread.value / static_cast<double>(shifts.size()));
  effect.ci95 = stats::Interval{std::expm1(std::min(shift.interval->lo, centre - half)),
                                std::expm1(std::max(shift.interval->hi, centre + half))};
  return effect;
}

stats::VarianceComponents components(const Differences& row) {
  return stats::variance_components(by_start(row.candidate, row.start));
}

int turns_to_decide(double shift, const stats::Variance& spread, double margin,
                    double smallest_effect, double alpha, double miss_rate, int start_turns,
                    int more_than) {
  GRADSYNC_CHECK(spread.degrees, >, 0.0);
  const double starts =
      std::min(starts_needed(shift - std::log1p(margin), spread, alpha),
               starts_needed(std::log1p(smallest_effect) - shift, spread, miss_rate));
  const double at_least = std::floor(static_cast<double>(more_than) / start_turns) + 1;
  const double needed = std::ceil(std::max(starts, at_least));
  constexpr double kMost = 1e6;  // says "never" as well as any larger number
  return static_cast<int>(std::min(needed, kMost)) * start_turns;
}

}  // namespace gradsync::gate
