#include "harness/gate/reasons.h"

#include <fmt/format.h>

#include <cmath>

#include "harness/gate/looks.h"

namespace gradsync::gate {

namespace {

constexpr int kNeverTurns = 2000;  // more than anybody waits for

std::string share(double value) {
  return fmt::format("{:g} %", 100 * value);
}

std::string measured(Measure measure, const std::optional<Effect>& effect) {
  const std::string what = measure == Measure::Mean ? "mean step " : "";
  return what + (effect ? to_text(*effect) : "not measured");
}

std::string finding(const RowDecision& row, Measure measure) {
  const MeasureDecision& of_measure = row.measures[measure];
  return fmt::format("{} (p = {:.2g})", measured(measure, of_measure.effect), of_measure.p_slower);
}

std::string confirmation(const RowDecision& row, Measure measure) {
  const MeasureDecision& of_measure = row.measures[measure];
  return fmt::format("{} (p = {:.2g})", measured(measure, of_measure.confirmed_effect),
                     of_measure.confirmed_p.value_or(1));
}

std::string in_fresh_starts(const RowDecision& row, Measure measure) {
  if (row.needs_confirmation) return "not yet confirmed in fresh starts";
  if (!row.measures[measure].confirmed_effect) {
    return "in fresh starts rows that are clearer were measured in its place";
  }
  return "again in fresh starts: " + confirmation(row, measure);
}

std::string remedy(const RowDecision& row) {
  if (!row.turns_needed) return "more turns would decide it, or a quieter machine";
  if (*row.turns_needed > kNeverTurns) {
    return fmt::format("at this spread it would take {} turns: it needs a quieter machine",
                       *row.turns_needed);
  }
  return fmt::format("about {} turns would decide it, or a quieter machine", *row.turns_needed);
}

}  // namespace

std::string to_text(const Effect& effect) {
  const bool is_faster = effect.value < 0;
  std::string text =
      fmt::format("{:.1f} % {}", 100 * std::abs(effect.value), is_faster ? "faster" : "slower");
  if (!effect.ci95) return text;
  const double lo = is_faster ? -effect.ci95->hi : effect.ci95->lo;
  const double hi = is_faster ? -effect.ci95->lo : effect.ci95->hi;
  return text + fmt::format(" [{:.1f}, {:.1f}]", 100 * lo, 100 * hi);
}

std::string regression_reason(const RowDecision& row, const Grounds& grounds,
                              const Settings& settings) {
  return fmt::format("{}, more than the margin of {}; {}", finding(row, grounds.measure),
                     share(settings.margin), in_fresh_starts(row, grounds.measure));
}

std::string unconfirmed_reason(const RowDecision& row, const Grounds& grounds,
                               const Settings& settings) {
  return fmt::format("{}, but in fresh starts {}, which is not surely more than the margin of {}",
                     finding(row, grounds.measure), confirmation(row, grounds.measure),
                     share(settings.margin));
}

std::string control_reason(const RowDecision& row, const Grounds& grounds) {
  const MeasureDecision& of_measure = row.measures[grounds.measure];
  const auto& effect = grounds.in_confirmation ? of_measure.confirmed_control : of_measure.control;
  const double p =
      grounds.in_confirmation ? of_measure.confirmed_p_control.value_or(1) : of_measure.p_control;
  return fmt::format(
      "{}the control, the baseline once more, is off: {} (p = {:.2g}); it is "
      "the machine, not the change",
      grounds.in_confirmation ? "in fresh starts " : "", measured(grounds.measure, effect), p);
}

std::string pass_reason(const RowDecision& row, const Settings& settings) {
  const auto part = [&](Measure measure) {
    return fmt::format("{}, surely less than {}", measured(measure, row.measures[measure].effect),
                       share(smallest_effect_of(measure, settings)));
  };
  return part(Measure::Low) + "; " + part(Measure::Mean);
}

std::string undecided_reason(const RowDecision& row, const Grounds& grounds,
                             const Settings& settings) {
  const int first = settings.looks.front().turns;
  if (row.turns < first) {
    return fmt::format("fewer than {} turns, which the first look needs", first);
  }
  std::string text =
      fmt::format("{}, neither surely more than {} nor surely less than {}",
                  measured(grounds.measure, row.measures[grounds.measure].effect),
                  share(settings.margin), share(smallest_effect_of(grounds.measure, settings)));
  if (row.turns < settings.looks.back().turns) {
    text += fmt::format(" after {} of {} turns", row.turns, settings.looks.back().turns);
  }
  if (!can_find_slower(settings)) {
    text +=
        fmt::format("; nothing can be found slower within {} turns", settings.looks.back().turns);
  } else if (row.smallest_visible) {
    text += fmt::format("; {:.1f} % would have been seen", 100 * *row.smallest_visible);
  }
  return text + "; " + remedy(row);
}

}  // namespace gradsync::gate
