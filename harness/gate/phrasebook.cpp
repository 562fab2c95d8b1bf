#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "harness/gate/claims.h"
#include "harness/gate/launch_level.h"
#include "harness/gate/looks.h"
#include "harness/gate/verdict.h"
#include "harness/gate/work.h"
#include "harness/text/labels.h"

namespace gradsync::gate {

namespace {

constexpr int kNeverTurns = 2000;  // more than anybody waits for

std::string share(double value) {
  return fmt::format("{:g} %", 100 * value);
}

// " [2.7, 3.6]", in percent; nothing where it is not known.
std::string interval_text(const std::optional<stats::Interval>& shares) {
  if (!shares) return "";
  return fmt::format(" [{:.1f}, {:.1f}]", 100 * shares->lo, 100 * shares->hi);
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

// Which phases are surely longer; nothing where phases were not tested.
std::string in_phases(const RowDecision& row, const Settings& settings) {
  if (row.phases.empty() || !row.phases.front().p) return "";
  std::vector<std::string> longer;
  for (const PhaseEffect& phase : row.phases) {
    if (*phase.p > confirmation_level(settings)) continue;
    longer.push_back(fmt::format("{} ({:.1f} %{} of a step)", phase.phase, 100 * phase.effect.value,
                                 interval_text(phase.effect.ci95)));
  }
  if (longer.empty()) return "; no phase by itself is surely longer";
  return fmt::format("; longer in {}", fmt::join(longer, ", "));
}

std::string remedy(const RowDecision& row) {
  if (!row.turns_needed) return "more turns would decide it, or a quieter machine";
  if (*row.turns_needed > kNeverTurns) {
    return fmt::format("at this spread it would take {} turns: it needs a quieter machine",
                       *row.turns_needed);
  }
  return fmt::format("about {} turns would decide it, or a quieter machine", *row.turns_needed);
}

std::string control_sentence(const RowDecision& row, Measure measure, bool in_confirmation) {
  const MeasureDecision& decision = row.measures[measure];
  const auto& effect = in_confirmation ? decision.confirmed_control : decision.control;
  const double p = in_confirmation ? decision.confirmed_p_control.value_or(1) : decision.p_control;
  return fmt::format(
      "{}the control, the baseline once more, is off: {} (p = {:.2g}); it is "
      "the machine, not the change",
      in_confirmation ? "in fresh starts " : "", measured(measure, effect), p);
}

std::string undecided_sentence(const RowDecision& row, Measure measure, const Settings& settings) {
  std::string text =
      fmt::format("{}, neither surely more than {} nor surely less than {}",
                  measured(measure, row.measures[measure].effect), share(settings.margin),
                  share(smallest_effect_of(measure, settings)));
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

std::string pass_sentence(const RowDecision& row, const Settings& settings) {
  const auto part = [&](Measure measure) {
    return fmt::format("{}, surely less than {}", measured(measure, row.measures[measure].effect),
                       share(smallest_effect_of(measure, settings)));
  };
  return part(Measure::Low) + "; " + part(Measure::Mean);
}

std::string at_level(const RowGrounds& grounds) {
  return to_text(*grounds.at_level) + " at " + level_text(grounds.level);
}

std::string interval_words(const ClaimGrounds& grounds) {
  return fmt::format("interval at {}, {:.3g}x to {:.3g}x,", level_text(grounds.level),
                     grounds.at_level->lo, grounds.at_level->hi);
}

constexpr std::size_t kMostOperators = 4;
constexpr std::size_t kMostLines = 3;

std::string words_of(const OperatorDifference& operation) {
  const std::int64_t more = operation.seen_times - operation.held_times;
  if (more != 0) {
    return fmt::format("{:+} {}{}", more, operation.name,
                       operation.name == kHostRead ? " (a host read)" : "");
  }
  return fmt::format("{} of {} bytes where the baseline has {}", operation.name,
                     operation.seen_bytes, operation.held_bytes);
}

std::string words_of(const LineWork& line) {
  if (line.line == 0) return fmt::format("less at {}: `{}`", line.file, line.text);
  return fmt::format("{} line {}: `{}`", line.file, line.line, line.text);
}

// The first few, and how many there are beside them.
template <typename Each>
std::vector<std::string> first_words(const std::vector<Each>& all, std::size_t most,
                                     const char* others) {
  std::vector<std::string> words;
  for (const Each& each : all) {
    if (words.size() == most) {
      words.push_back(fmt::format("{} {}", all.size() - most, others));
      break;
    }
    words.push_back(words_of(each));
  }
  return words;
}

std::string launches(std::size_t count) {
  return text::counted(count, "launch", "launches");
}

}  // namespace

std::string to_text(const Effect& effect) {
  const bool is_faster = effect.value < 0;
  auto shares = effect.ci95;
  if (shares && is_faster) shares = stats::Interval{-shares->hi, -shares->lo};
  return fmt::format("{:.1f} % {}{}", 100 * std::abs(effect.value), is_faster ? "faster" : "slower",
                     interval_text(shares));
}

std::string sentence(const RowDecision& row, const Settings& settings) {
  const RowGrounds& grounds = row.grounds;
  switch (grounds.reason) {
    case RowReason::Small:
      return pass_sentence(row, settings);
    case RowReason::Slower:
      return fmt::format("{}, more than the margin of {}; {}{}", finding(row, grounds.measure),
                         share(settings.margin), in_fresh_starts(row, grounds.measure),
                         in_phases(row, settings));
    case RowReason::NotSlowerAgain:
      return fmt::format(
          "{}, but in fresh starts {}, which is not surely more than the margin of {}",
          finding(row, grounds.measure), confirmation(row, grounds.measure),
          share(settings.margin));
    case RowReason::ControlOff:
    case RowReason::ControlOffInConfirmation:
      return control_sentence(row, grounds.measure,
                              grounds.reason == RowReason::ControlOffInConfirmation);
    case RowReason::TooFewTurns:
      return fmt::format("fewer than {} turns, which the first look needs",
                         settings.looks.front().turns);
    case RowReason::BetweenLimits:
      return undecided_sentence(row, grounds.measure, settings);
    case RowReason::IntervalAbove:
      return fmt::format("{}, all of it above the margin of {}", at_level(grounds),
                         share(settings.margin));
    case RowReason::IntervalBelow:
      return at_level(grounds);
    case RowReason::IntervalAcross:
      return fmt::format(
          "{}: the interval reaches from below the margin of {} to the smallest effect of {} or "
          "beyond; a comparison of builds that take turns is more precise",
          at_level(grounds), share(settings.margin), share(settings.smallest_effect));
    case RowReason::TooFewLaunches:
      return fmt::format("{}, but a side has {}: {} of each are needed to decide on times",
                         to_text(*row.measures[Measure::Mean].effect), launches(grounds.launches),
                         kFewestLaunchesToDecide);
    case RowReason::Given:
      break;
  }
  return grounds.given;
}

std::string sentence(const WorkDifference& difference) {
  const std::vector<int>& ranks = difference.ranks;
  const std::string who = ranks.empty() ? "every rank"
                                        : fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                                                      fmt::join(ranks, ", "));
  auto words = first_words(difference.operators, kMostOperators, "other operators");
  if (difference.seen_flops) {
    words.push_back(fmt::format("{} floating point operations where the baseline has {}",
                                *difference.seen_flops, *difference.held_flops));
  }
  const auto lines = first_words(difference.lines, kMostLines, "other lines");
  return fmt::format("{}, per step: {}{}{}", who, fmt::join(words, ", "), lines.empty() ? "" : "; ",
                     fmt::join(lines, "; "));
}

std::string sentence(const ClaimOutcome& claim) {
  const ClaimGrounds& grounds = claim.grounds;
  switch (grounds.reason) {
    case ClaimReason::Holds:
      return "";
    case ClaimReason::NotMeasured:
      return "not measured: the run does not have both rows";
    case ClaimReason::NoSharedRound:
      return "no round in which both rows ran";
    case ClaimReason::TooFewLaunches:
      return fmt::format("{}, and a claim needs {}: rerun with --launches {}",
                         launches(claim.ratio->launches), kFewestLaunchesToDecide,
                         kFewestLaunchesToDecide);
    case ClaimReason::Outside:
      return fmt::format("the whole {} is outside", interval_words(grounds));
    case ClaimReason::Across:
      return fmt::format("the {} crosses the limit: {}", interval_words(grounds),
                         grounds.launches_needed
                             ? fmt::format("rerun with --launches {}", *grounds.launches_needed)
                             : "the ratio is too near the limit to decide");
    case ClaimReason::NotOk:
      return fmt::format(
          "{} is {}: {}",
          grounds.strategy.empty() ? "a row" : text::strategy_label(grounds.strategy),
          results::to_string(grounds.status), grounds.given);
    case ClaimReason::NoTimes:
      break;
  }
  return "no times: " + grounds.given;
}

}  // namespace gradsync::gate
