#include "harness/gate/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/base/units.h"
#include "harness/gate/turns.h"
#include "harness/text/labels.h"

namespace gradsync::gate {

namespace {

double row_turns_s(double step_s, const LaunchCost& launch, const Settings& settings, int turns) {
  const int steps = pass_steps(settings, step_s) + settings.settle_steps;
  return (step_s * steps + launch.switch_s) * settings.passes * turns;
}

double row_warm_up_s(double step_s, const LaunchCost& launch, const Settings& settings) {
  const double phase_steps = (settings.phase_steps - 1) / 2.0;
  return step_s * (launch.warmup_steps + phase_steps + 1) + launch.switch_s;
}

// Whole: settings are valid.
int starts_of(int turns, const Settings& settings) {
  return turns / settings.start_turns;
}

// One row of a launch, in all arms.
double row_s(double step_s, const LaunchCost& launch, const Settings& settings, int turns) {
  return static_cast<double>(kArms.size()) *
         (row_turns_s(step_s, launch, settings, turns) +
          starts_of(turns, settings) * row_warm_up_s(step_s, launch, settings));
}

std::string counted_starts(int turns, const Settings& settings) {
  return text::counted(static_cast<std::size_t>(starts_of(turns, settings)), "start", "starts");
}

// Rounded up, because it says what is enough.
std::string enough(double duration_s) {
  return format_duration(std::ceil(duration_s));
}

}  // namespace

double turns_s(const std::vector<LaunchCost>& launches, const Settings& settings, int turns) {
  double sum = 0;
  for (const LaunchCost& launch : launches) {
    sum += launch.start_s * starts_of(turns, settings);
    for (const double step_s : launch.step_s) sum += row_s(step_s, launch, settings, turns);
  }
  return sum;
}

double confirmation_s(const std::vector<LaunchCost>& launches, const Settings& settings) {
  if (!can_find_slower(settings)) return 0;
  const int turns = settings.confirmation_turns;
  double starts_s = 0;
  std::vector<double> rows_s;
  for (const LaunchCost& launch : launches) {
    starts_s += launch.start_s * starts_of(turns, settings);
    for (const double step_s : launch.step_s) {
      rows_s.push_back(row_s(step_s, launch, settings, turns));
    }
  }
  std::sort(rows_s.rbegin(), rows_s.rend());
  rows_s.resize(std::min(rows_s.size(), static_cast<std::size_t>(settings.confirmed_rows)));
  return std::accumulate(rows_s.begin(), rows_s.end(), starts_s);
}

Forecast forecast(const std::vector<LaunchCost>& launches, const Settings& settings) {
  Forecast result;
  for (const LaunchCost& launch : launches) result.rows += launch.step_s.size();
  result.first_s = turns_s(launches, settings, settings.looks.front().turns);
  result.least_s = turns_s(launches, settings, turns_to_pass(settings));
  result.confirmation_s = confirmation_s(launches, settings);
  result.most_s = turns_s(launches, settings, settings.looks.back().turns) + result.confirmation_s;
  return result;
}

std::string to_text(const Forecast& forecast, const Settings& settings) {
  const int least = turns_to_pass(settings);
  const int most = settings.looks.back().turns;
  std::string text = fmt::format(
      "{}: {} where all pass at once, after {} turns each in {}; at most {}, after {} turns in {}",
      text::counted(forecast.rows, "row", "rows"), enough(forecast.least_s), least,
      counted_starts(least, settings), enough(forecast.most_s), most,
      counted_starts(most, settings));
  if (forecast.confirmation_s > 0) {
    const auto confirmed = static_cast<std::size_t>(settings.confirmed_rows);
    text += fmt::format(", {} of it to confirm {}", enough(forecast.confirmation_s),
                        text::counted(std::min(forecast.rows, confirmed), "row", "rows"));
  }
  return text;
}

}  // namespace gradsync::gate
