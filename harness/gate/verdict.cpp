#include "harness/gate/verdict.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "harness/gate/claims.h"
#include "harness/gate/looks.h"
#include "harness/stats/error_rates.h"
#include "harness/stats/sample.h"

namespace gradsync::gate {

namespace {

// The first of these that any row has is the gate's: the order of exit statuses 4, 1, 3, 0.
constexpr std::array kBySeverity = {Verdict::Unfit, Verdict::Regression, Verdict::Undecided,
                                    Verdict::Pass};

double control_p(const PValues& p) {
  return std::min(p.control_slower, p.control_faster);
}

bool was_run(const RowDifferences& confirmation, const Settings& settings) {
  return confirmation[Measure::Low].turns() >=
         static_cast<std::size_t>(settings.confirmation_turns);
}

// All rows of a gate on their way to their verdicts.
class Family {
 public:
  Family(const std::vector<RowEvidence>& rows, const Settings& settings)
      : evidence_(rows), settings_(settings), decided_(rows.size()) {
    std::vector<RowDifferences> turns;
    turns.reserve(rows.size());
    for (const RowEvidence& row : rows) turns.push_back(row.turns);
    progress_ = go_through_looks(turns, settings);
  }

  std::vector<RowDecision> decide() {
    for (std::size_t row = 0; row < decided_.size(); ++row) describe(row);
    adjust_for_rows();
    close_findings();
    test_confirmations();
    for (std::size_t row = 0; row < decided_.size(); ++row) conclude(row);
    if (!any_confirmed()) choose_for_confirmation();
    conclude_other_findings();
    return decided_;
  }

 private:
  void describe(std::size_t row) {
    const RowProgress& progress = progress_[row];
    RowDecision& decision = decided_[row];
    decision.turns = progress.turns;
    decision.is_open = progress.is_open && evidence_[row].unfit_because.empty();
    for (const Measure measure : kMeasures) {
      const Differences& all = evidence_[row].turns[measure];
      const Differences seen =
          progress.turns > 0 ? all.first(static_cast<std::size_t>(progress.turns)) : all;
      const Shifts& shifts = progress.shifts[measure];
      const StartSpread& spread = progress.spread[measure];
      MeasureDecision& of_measure = decision.measures[measure];
      of_measure.effect = effect_of(shifts.candidate, spread.not_slower);
      of_measure.control = effect_of(shifts.control, spread.control);
      of_measure.p = progress.p[measure];
      of_measure.components = components(seen);
    }
  }

  void adjust_for_rows() {
    std::vector<double> slower;
    std::vector<double> control;
    for (const RowDecision& row : decided_) {
      for (const Measure measure : kMeasures) {
        const PValues& p = row.measures[measure].p;
        slower.push_back(p.slower);
        control.insert(control.end(), {p.control_slower, p.control_faster});
      }
    }
    slower = stats::holm_adjusted(slower);
    control = stats::holm_adjusted(control);
    std::size_t test = 0;
    for (RowDecision& row : decided_) {
      for (const Measure measure : kMeasures) {
        row.measures[measure].p_slower = slower[test];
        row.measures[measure].p_control = std::min(control[2 * test], control[2 * test + 1]);
        ++test;
      }
    }
  }

  bool is_slower(std::size_t row, Measure measure) const {
    return decided_[row].measures[measure].p_slower <= settings_.alpha;
  }

  // The measure in which the control is off, if any.
  std::optional<Measure> control_off(std::size_t row) const {
    for (const Measure measure : kMeasures) {
      if (decided_[row].measures[measure].p_control <= settings_.alpha) return measure;
    }
    return std::nullopt;
  }

  bool can_be_slower(std::size_t row) const {
    return evidence_[row].unfit_because.empty() && !control_off(row);
  }

  bool is_found(std::size_t row) const {
    return can_be_slower(row) && (is_slower(row, Measure::Low) || is_slower(row, Measure::Mean));
  }

  double smallest_p(std::size_t row) const {
    const ByMeasure<MeasureDecision>& measures = decided_[row].measures;
    return std::min(measures[Measure::Low].p.slower, measures[Measure::Mean].p.slower);
  }

  // Holm's method finds more than the looks close by themselves once another row is found.
  void close_findings() {
    for (std::size_t row = 0; row < decided_.size(); ++row) {
      if (is_found(row)) decided_[row].is_open = false;
    }
  }

  bool is_confirmable(std::size_t row) const {
    return is_found(row) && was_run(evidence_[row].confirmation, settings_);
  }

  // Fresh starts, by their spread alone: whatever the looks leant on, this holds by itself.
  void test_confirmations() {
    for (std::size_t row = 0; row < decided_.size(); ++row) {
      if (!is_confirmable(row)) continue;
      ++confirmed_rows_;
      for (const Measure measure : kMeasures) confirmed_tests_ += is_slower(row, measure) ? 1 : 0;
    }
    for (std::size_t row = 0; row < decided_.size(); ++row) {
      if (!was_run(evidence_[row].confirmation, settings_)) continue;
      for (const Measure measure : kMeasures) confirm(row, measure);
    }
  }

  void confirm(std::size_t row, Measure measure) {
    const Shifts fresh = shifts_of(evidence_[row].confirmation[measure]);
    StartSpread spread = start_spread(fresh);
    spread.slower = spread.not_slower;
    MeasureDecision& decision = decided_[row].measures[measure];
    decision.confirmed_effect = effect_of(fresh.candidate, spread.not_slower);
    decision.confirmed_control = effect_of(fresh.control, spread.control);
    const PValues p =
        p_values(fresh, spread, settings_.margin, smallest_effect_of(measure, settings_));
    const auto controls =
        static_cast<double>(control_tests(std::max<std::size_t>(1, confirmed_rows_)));
    decision.confirmed_p_control = std::min(1.0, controls * control_p(p));
    if (is_found(row) && is_slower(row, measure)) {
      decision.confirmed_p = std::min(1.0, static_cast<double>(confirmed_tests_) * p.slower);
    }
  }

  bool any_confirmed() const {
    return std::any_of(decided_.begin(), decided_.end(),
                       [](const auto& row) { return row.verdict == Verdict::Regression; });
  }

  void choose_for_confirmation() {
    std::vector<std::size_t> found;
    for (std::size_t row = 0; row < decided_.size(); ++row) {
      if (is_found(row) && !is_confirmable(row)) found.push_back(row);
    }
    std::stable_sort(found.begin(), found.end(),
                     [&](std::size_t a, std::size_t b) { return smallest_p(a) < smallest_p(b); });
    const auto most = static_cast<std::size_t>(settings_.confirmed_rows);
    found.resize(std::min(most, found.size()));
    for (const std::size_t row : found) decided_[row].needs_confirmation = true;
  }

  void conclude(std::size_t row) {
    RowDecision& decision = decided_[row];
    if (!evidence_[row].unfit_because.empty()) {
      set(decision, Verdict::Unfit,
          {.reason = RowReason::Given, .given = evidence_[row].unfit_because});
    } else if (const auto measure = control_off(row)) {
      set(decision, Verdict::Unfit, {RowReason::ControlOff, *measure});
    } else if (is_confirmable(row)) {
      conclude_finding(row);
    } else if (is_found(row)) {
      return;  // until it is known whether any is confirmed
    } else if (is_pass(progress_[row].p, settings_)) {
      set(decision, Verdict::Pass, {RowReason::Small});
    } else {
      conclude_undecided(row);
    }
  }

  Measure found_in(std::size_t row) const {
    return is_slower(row, Measure::Low) ? Measure::Low : Measure::Mean;
  }

  // Where one is confirmed it is known that findings of these starts come again, and each of the
  // others holds at alpha.
  void conclude_other_findings() {
    const Verdict verdict = any_confirmed() ? Verdict::Regression : Verdict::Undecided;
    for (std::size_t row = 0; row < decided_.size(); ++row) {
      if (!is_found(row) || is_confirmable(row)) continue;
      set(decided_[row], verdict, {RowReason::Slower, found_in(row)});
    }
  }

  void conclude_finding(std::size_t row) {
    RowDecision& decision = decided_[row];
    const Measure found = found_in(row);
    for (const Measure measure : kMeasures) {
      if (*decision.measures[measure].confirmed_p_control > settings_.alpha) continue;
      set(decision, Verdict::Unfit, {RowReason::ControlOffInConfirmation, measure});
      return;
    }
    for (const Measure measure : kMeasures) {
      if (decision.measures[measure].confirmed_p.value_or(1) > confirmation_level(settings_))
        continue;
      set(decision, Verdict::Regression, {RowReason::Slower, measure});
      return;
    }
    set(decision, Verdict::Undecided, {RowReason::NotSlowerAgain, found});
  }

  void conclude_undecided(std::size_t row) {
    RowDecision& decision = decided_[row];
    const bool low_passes = decision.measures[Measure::Low].p.not_slower <= settings_.miss_rate;
    const Measure measure = low_passes ? Measure::Mean : Measure::Low;
    const auto& effect = decision.measures[measure].effect;
    const bool could_see = can_find_slower(settings_);
    if (could_see && effect && effect->ci95) decision.smallest_visible = effect->ci95->hi;
    const stats::Variance& spread = progress_[row].spread[measure].not_slower;
    if (decision.turns > 0 && spread.degrees > 0) {
      decision.turns_needed =
          turns_to_decide(stats::mean(progress_[row].shifts[measure].candidate), spread,
                          settings_.margin, smallest_effect_of(measure, settings_),
                          settings_.alpha / static_cast<double>(slower_tests(decided_.size())),
                          settings_.miss_rate, settings_.start_turns, decision.turns);
    }
    const bool has_a_look = decision.turns >= settings_.looks.front().turns;
    set(decision, Verdict::Undecided,
        {has_a_look ? RowReason::BetweenLimits : RowReason::TooFewTurns, measure});
  }

  void set(RowDecision& decision, Verdict verdict, RowGrounds grounds) const {
    decision.verdict = verdict;
    decision.grounds = std::move(grounds);
    decision.reason = sentence(decision, settings_);
  }

  const std::vector<RowEvidence>& evidence_;
  const Settings& settings_;
  std::vector<RowProgress> progress_;
  std::vector<RowDecision> decided_;
  std::size_t confirmed_rows_ = 0;   // found, and measured once more
  std::size_t confirmed_tests_ = 0;  // measures found slower, over these
};

}  // namespace

std::string to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::Pass:
      return "pass";
    case Verdict::Regression:
      return "regression";
    case Verdict::Undecided:
      return "undecided";
    case Verdict::Unfit:
      break;
  }
  return "unfit";
}

ExitStatus exit_status_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Pass:
      return ExitStatus::Ok;
    case Verdict::Regression:
      return ExitStatus::Regression;
    case Verdict::Undecided:
      return ExitStatus::Undecided;
    case Verdict::Unfit:
      break;
  }
  return ExitStatus::Unfit;
}

Verdict overall(const std::vector<Verdict>& verdicts) {
  GRADSYNC_CHECK(verdicts.size(), >, std::size_t{0});
  return *std::find_if(kBySeverity.begin(), kBySeverity.end(), [&](Verdict verdict) {
    return std::find(verdicts.begin(), verdicts.end(), verdict) != verdicts.end();
  });
}

Decision decide(const std::vector<RowEvidence>& rows, const Settings& settings) {
  Decision decision;
  decision.rows = Family(rows, settings).decide();
  std::vector<Verdict> verdicts;
  for (const RowDecision& row : decision.rows) verdicts.push_back(row.verdict);
  decision.verdict = overall(verdicts);
  return decision;
}

}  // namespace gradsync::gate
