// From the turns of all rows to a verdict on each and on the gate, with the reason in a sentence.
//
// The error rate, step by step:
//   looks         each row is tested after every start; its p-values are spent over the looks
//                 (settings.h), and a row whose verdict is clear takes no more turns
//   rows          "slower" of all rows and measures is one family at alpha, by Holm's method:
//                 the chance of any false alarm is at most alpha, however rows depend on each other
//   passing       every row by itself: a row passes where both measures are not slower, each at the
//                 miss rate; so one that is slower by the smallest effect in either passes with at
//                 most that chance, and no row passes only because it was not seen to be slower
//   control       the same build against itself is tested like the candidate, in both directions,
//                 as a family of its own at alpha; where it is off the row is unfit
//   confirmation  what was found slower, the clearest rows of it, is measured once more in fresh
//                 starts and must be found slower there by itself, at alpha over the number of
//                 findings that were measured again, with the control clean. A false alarm then has
//                 to happen twice; what was drawn once is drawn again. Where none is confirmed the
//                 next ones are measured. The other findings, which hold at alpha by themselves,
//                 stand with the first that is confirmed.
//
// A gate with a confirmed row is a regression whatever the others come to, so it may end there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "harness/gate/row_decision.h"
#include "harness/gate/settings.h"

namespace gradsync::gate {

enum class Verdict { Pass, Regression, Undecided, Unfit };

std::string to_string(Verdict verdict);  // "pass", "regression", "undecided", "unfit"

// Returns Ok, Regression, Undecided or Unfit.
ExitStatus exit_status_of(Verdict verdict);

// Returns the verdict of a gate with rows of these verdicts: the first of unfit, regression,
// undecided, pass that any has.   Errors: InternalError without rows.
Verdict overall(const std::vector<Verdict>& verdicts);

// What is known of one row so far.
struct RowEvidence {
  RowDifferences turns;         // all starts but those of the confirmation
  RowDifferences confirmation;  // empty: not run
  std::string unfit_because;    // why the row cannot be measured; "": it can
};

// One measure of a row.
struct MeasureDecision {
  std::optional<Effect> effect;          // of the candidate; absent without turns
  std::optional<Effect> control;         // of the control
  PValues p;                             // spent over the looks so far, not yet over the rows
  double p_slower = 1;                   // p.slower, adjusted for all rows and measures
  double p_control = 1;                  // the smaller of the control's two, adjusted likewise
  stats::VarianceComponents components;  // of the candidate's differences
  // In the confirmation alone; absent where it was not run. Adjusted for what was tested in it.
  std::optional<Effect> confirmed_effect;
  std::optional<Effect> confirmed_control;
  std::optional<double>
      confirmed_p;  // of the candidate; absent where it was not found slower before
  std::optional<double> confirmed_p_control;
};

// By how much one phase of a step is longer (phases.h).
struct PhaseEffect {
  std::string phase;  // "forward"
  double share = 0;   // of the baseline's step
  Effect effect;      // as a share of a step
  // That it is longer, adjusted for all phases; of none where the row was not confirmed as slower.
  std::optional<double> p;
};

// Why a row has its verdict.
enum class RowReason {
  Small,           // both measures are surely less than their smallest effects
  Slower,          // surely more than the margin, again in fresh starts where those were run
  NotSlowerAgain,  // surely more than the margin, but not in fresh starts
  ControlOff,      // the control is slower or faster than the baseline
  ControlOffInConfirmation,
  TooFewTurns,    // fewer than the first look needs
  BetweenLimits,  // neither surely more than the margin nor surely less than the smallest effect
  // Stored runs, which did not take turns:
  IntervalAbove,   // the margin
  IntervalBelow,   // the smallest effect
  IntervalAcross,  // both
  TooFewLaunches,
  Given,  // it could not be measured or compared: `given` says why
};

struct RowGrounds {
  RowReason reason = RowReason::Given;
  Measure measure = Measure::Low;  // that was found slower, is off in the control, or is undecided
  std::optional<Effect> at_level = std::nullopt;  // of stored runs, with the interval that decides
  double level = 0;                               // its
  std::size_t launches = 0;                       // of the side that has fewer
  std::string given = "";
};

struct RowDecision {
  Verdict verdict = Verdict::Undecided;
  RowGrounds grounds;
  std::string reason;               // their sentence
  int turns = 0;                    // that were looked at; later ones do not count
  bool is_open = true;              // takes part in the next start
  bool needs_confirmation = false;  // found slower, clearest of those whose confirmation is not run
  ByMeasure<MeasureDecision> measures;
  // For an undecided row: the smallest effect that it could have seen, where anything could be
  // found slower. That is the upper end of the interval of the undecided measure, as a share. And
  // the turns that would decide the row.
  std::optional<double> smallest_visible;
  std::optional<int> turns_needed;
  std::vector<PhaseEffect> phases;  // the largest effect first; empty: not known
};

struct Decision {
  Verdict verdict = Verdict::Undecided;
  std::vector<RowDecision> rows;  // in the order given
};

// Returns the decision on `rows`, of which some may have had more turns than others. Turns beyond
// the look that closed a row do not count, so what was stored is decided as it was decided then.
// Call it after every look: first run the confirmation of the rows that need it, and call it again;
// then the rows that are open take part in the next starts.
// Errors: InternalError without rows.   Cost: milliseconds per row.
Decision decide(const std::vector<RowEvidence>& rows, const Settings& settings);

// Returns the sentence for `row.grounds` and the numbers beside them (phrasebook.cpp).
std::string sentence(const RowDecision& row, const Settings& settings);

// Returns "3.1 % slower [2.7, 3.6]", "0.4 % faster [-0.9, 0.2]", the interval only where there is
// one: an effect as reasons and tables print it.
std::string to_text(const Effect& effect);

}  // namespace gradsync::gate
