#include "harness/gate/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/base/errors.h"
#include "harness/base/units.h"
#include "harness/gate/turns.h"
#include "harness/report/labels.h"

namespace gradsync::gate {

namespace {

double turns_s(double step_s, double switch_s, int turns, const Settings& settings) {
  const int steps = pass_steps(settings, step_s) + settings.settle_steps;
  return (step_s * steps + switch_s) * settings.passes * static_cast<double>(kArms.size()) * turns;
}

// Whole: settings are valid.
int starts_of(int turns, const Settings& settings) {
  return turns / settings.start_turns;
}

double looks_s(const std::vector<LaunchCost>& launches, const Settings& settings) {
  double sum = 0;
  for (const LaunchCost& launch : launches) {
    sum += launch.start_s * starts_of(settings.looks.back().turns, settings);
    for (const double step_s : launch.step_s) {
      sum += turns_s(step_s, launch.switch_s, settings.looks.back().turns, settings);
    }
  }
  return sum;
}

// Rounded up, because it says what is enough.
std::string enough(double duration_s) {
  return format_duration(std::ceil(duration_s));
}

// Of the rows that take longest.
double confirmation_s(const std::vector<LaunchCost>& launches, const Settings& settings) {
  if (!can_find_slower(settings)) return 0;
  double sum = 0;
  std::vector<double> rows_s;
  for (const LaunchCost& launch : launches) {
    sum += launch.start_s * starts_of(settings.confirmation_turns, settings);
    for (const double step_s : launch.step_s) {
      rows_s.push_back(turns_s(step_s, launch.switch_s, settings.confirmation_turns, settings));
    }
  }
  std::sort(rows_s.rbegin(), rows_s.rend());
  rows_s.resize(std::min(rows_s.size(), static_cast<std::size_t>(settings.confirmed_rows)));
  return std::accumulate(rows_s.begin(), rows_s.end(), sum);
}

Forecast forecast_of(const std::vector<LaunchCost>& launches, const Settings& settings) {
  Forecast result;
  for (const LaunchCost& launch : launches) result.rows += launch.step_s.size();
  result.looks = settings.looks.size();
  result.looks_s = looks_s(launches, settings);
  result.confirmation_s = confirmation_s(launches, settings);
  return result;
}

// What the fewest looks take that can find a row slower; nothing where all of them cannot.
std::optional<Forecast> forecast_to_find_slower(const std::vector<LaunchCost>& launches,
                                                const Settings& settings) {
  for (std::size_t looks = 1; looks <= settings.looks.size(); ++looks) {
    const Settings fewer = with_first_looks(settings, looks);
    if (can_find_slower(fewer)) return forecast_of(launches, fewer);
  }
  return std::nullopt;
}

}  // namespace

Forecast forecast(const std::vector<LaunchCost>& launches, const Settings& settings,
                  std::optional<double> budget_s) {
  for (std::size_t looks = settings.looks.size();; --looks) {
    const Settings fewer = with_first_looks(settings, looks);
    const Forecast result = forecast_of(launches, fewer);
    if (!budget_s || result.total_s() <= *budget_s) return result;
    if (looks > 1) continue;
    throw ConfigError(fmt::format("--time-budget: got {}, expected at least {}: {}",
                                  format_duration(*budget_s), enough(result.total_s()),
                                  to_text(result, fewer)));
  }
}

std::string note_on_looks(const Forecast& fitting, const std::vector<LaunchCost>& launches,
                          const Settings& settings, double spent_s) {
  if (fitting.looks == settings.looks.size()) return "";
  std::string note =
      fmt::format("the time budget allows {} of {} looks", fitting.looks, settings.looks.size());
  const auto enough_looks = forecast_to_find_slower(launches, settings);
  if (!enough_looks || fitting.looks >= enough_looks->looks) return note;
  return note + fmt::format(": nothing can be found slower; --time-budget {:.0f}m would allow {}",
                            std::ceil((spent_s + enough_looks->total_s()) / 60),
                            enough_looks->looks);
}

std::string to_text(const Forecast& forecast, const Settings& settings) {
  const Look& last = settings.looks[forecast.looks - 1];
  std::string text =
      fmt::format("{}, {} turns each in {}: at most {}",
                  report::counted(forecast.rows, "row", "rows"), last.turns,
                  report::counted(static_cast<std::size_t>(last.turns / settings.start_turns),
                                  "start", "starts"),
                  enough(forecast.total_s()));
  if (forecast.confirmation_s > 0) {
    const auto confirmed = static_cast<std::size_t>(settings.confirmed_rows);
    text += fmt::format(", of which {} to confirm {}", enough(forecast.confirmation_s),
                        report::counted(std::min(forecast.rows, confirmed), "row", "rows"));
  }
  return text;
}

}  // namespace gradsync::gate
