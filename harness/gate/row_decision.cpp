#include "harness/gate/row_decision.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "harness/base/errors.h"
#include "harness/stats/sample.h"
#include "harness/stats/student.h"

namespace gradsync::gate {
namespace {

constexpr double kDisplayLevel = 0.95;
constexpr double kPowerToDecide = 0.9;

double measure_of(Measure measure, const Turn& turn, Arm arm, double low_quantile) {
  GRADSYNC_CHECK(turn.of(arm).size(), >, std::size_t{0});
  const double value =
      measure == Measure::Low ? stats::quantile(turn.of(arm), low_quantile) : turn.mean_step_s(arm);
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

template <typename Value>
std::vector<Value> take_first(const std::vector<Value>& list, std::size_t count) {
  const auto end =
      std::next(list.begin(), static_cast<std::ptrdiff_t>(std::min(count, list.size())));
  return {list.begin(), end};
}

stats::Variance mean_square(double squares, double degrees) {
  return degrees > 0 ? stats::Variance{squares / degrees, degrees} : stats::Variance{};
}

std::vector<double> negated(std::vector<double> values) {
  for (double& value : values) value = -value;
  return values;
}

// Moderates the spreads with degrees of freedom, and leaves the others as they are.
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
  return {take_first(start, turns), take_first(candidate, turns), take_first(control, turns),
          measure};
}

Shifts Shifts::first(std::size_t starts) const {
  return {take_first(candidate, starts), take_first(control, starts)};
}

std::vector<double> shifts_of(const std::vector<double>& values, const std::vector<int>& start,
                              Measure measure) {
  std::vector<double> shifts;
  for (const auto& group : by_start(values, start)) {
    shifts.push_back(measure == Measure::Low ? stats::hodges_lehmann(group) : stats::mean(group));
  }
  return shifts;
}

Shifts shifts_of(const Differences& row) {
  return {shifts_of(row.candidate, row.start, row.measure),
          shifts_of(row.control, row.start, row.measure)};
}

std::size_t starts_within(const Differences& row, std::size_t turns) {
  std::size_t starts = 0;
  for (std::size_t turn = 0; turn < std::min(turns, row.turns()); ++turn) {
    if (turn == 0 || row.start[turn] != row.start[turn - 1]) ++starts;
  }
  return starts;
}

RowDifferences differences(const std::vector<Turn>& turns, double low_quantile) {
  RowDifferences row;
  for (const Measure measure : kMeasures) {
    Differences& of_measure = row[measure];
    of_measure.measure = measure;
    for (const Turn& turn : turns) {
      const auto log_of = [&](Arm arm) {
        return std::log(measure_of(measure, turn, arm, low_quantile));
      };
      const double baseline = log_of(Arm::Baseline);
      const double control = log_of(Arm::Control);
      of_measure.start.push_back(turn.start);
      of_measure.candidate.push_back(log_of(Arm::Candidate) - (baseline + control) / 2);
      of_measure.control.push_back(control - baseline);
    }
  }
  return row;
}

stats::Variance own_spread(const std::vector<double>& shifts) {
  if (shifts.empty()) return {};
  return mean_square(squares_about(shifts, stats::mean(shifts)),
                     static_cast<double>(shifts.size()) - 1);
}

StartSpread start_spread(const Shifts& row) {
  if (row.starts() == 0) return {};
  constexpr double kVarianceRatio = 1.5 / 2;  // of the candidate's difference to the control's
  const auto starts = static_cast<double>(row.starts());
  const double own = squares_about(row.candidate, stats::mean(row.candidate));
  const double about_0 = squares_about(row.control, 0);
  const double about_mean = squares_about(row.control, stats::mean(row.control));
  return {mean_square(own + kVarianceRatio * about_0, 2 * starts - 1), own_spread(row.candidate),
          mean_square(own / kVarianceRatio + about_mean, 2 * starts - 2)};
}

std::vector<StartSpread> moderated(const std::vector<StartSpread>& rows) {
  std::vector<StartSpread> result = rows;
  moderate(result, &StartSpread::slower);
  moderate(result, &StartSpread::control);
  return result;
}

double above_p(const std::vector<double>& shifts, double threshold, const stats::Variance& spread) {
  if (shifts.empty() || spread.degrees <= 0) return 1;
  const double distance = stats::mean(shifts) - threshold;
  const double error = std::sqrt(spread.value / static_cast<double>(shifts.size()));
  if (error == 0) return distance > 0 ? 0 : 1;
  return stats::student_tail(spread.degrees, distance / error);
}

PValues p_values(const Shifts& row, const StartSpread& spread, double margin,
                 double smallest_effect) {
  const double slower = std::log1p(margin);
  return {above_p(row.candidate, slower, spread.slower),
          above_p(negated(row.candidate), -std::log1p(smallest_effect), spread.not_slower),
          above_p(row.control, slower, spread.control),
          above_p(negated(row.control), slower, spread.control)};
}

std::optional<Effect> effect_of(const std::vector<double>& shifts, const stats::Variance& spread) {
  if (shifts.empty()) return std::nullopt;
  const double centre = stats::mean(shifts);
  Effect effect{std::expm1(centre), std::nullopt};
  if (spread.degrees <= 0) return effect;
  const double half = stats::student_t(spread.degrees, kDisplayLevel) *
                      std::sqrt(spread.value / static_cast<double>(shifts.size()));
  effect.ci95 = stats::Interval{std::expm1(centre - half), std::expm1(centre + half)};
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
