// What the turns of one row say: by how much the candidate is slower, and how sure that is.
//
// A row is decided on two measures of a block's steps: its low quantile, which hardly feels the
// neighbours, and its mean, which feels every stall. A turn gives two differences of each, which
// share no chance (their contrasts are orthogonal):
//
//     candidate   log(candidate) - (log(baseline) + log(control)) / 2
//     control     log(control) - log(baseline), which is 0 up to chance
//
// The control is the baseline's build once more, so both are held against the candidate: that takes
// a quarter off the variance, which would cost a third more turns.
//
// Where memory, threads and links land is drawn once per start and shifts all its turns alike, so
// turns are not independent, but starts are. "Does it lie above a threshold?" is therefore asked of
// starts, by Student's t over their shifts. A start's shift of the low quantile is the
// Hodges-Lehmann estimate over its turns, deaf to a turn that was disturbed; that of the mean is
// the mean over its turns, because a stall that comes once in many turns must not go unheard.
//
// How much shifts vary from start to start: "slower" leans on more than the candidate's own. The
// control is a start of the same kind whose shift is known to be 0, and the other rows are starts
// of the same kind as far as their variances agree (stats/moderated_variance.h). So a clear row is
// found after two or three starts. It may lean, because what is found must be found again in fresh
// starts, by their spread alone (verdict.h). "Not slower" is final, so there the candidate stands
// for itself: a change may make starts vary that did not before, and if their spread were pooled
// with the control's, which does not vary, such a candidate would pass while it is 3 % slower.
//
// What it comes to, on the noise of stored A/A starts of plan `gate` (results/gate, 16 rows on two
// quiet cores and 4 beside load) and with the default settings and ten minutes of time. One row is
// slowed, the others are not; 1200 gates a line, and for stalls 300 of each of their 33 phases. "In
// 5 min" is the share found within five minutes, of all; the time is that until the gate ends.
//
//     the slowed row            alarms   found   in 5 min   passes   undecided   minutes (95 %)
//     no                         0           -         -         -       0.8 %      5.8 (8.2)
//     1 %, the margin            0       0           -      99.3 %       1.4 %      5.9 (8.4)
//     3 %                        0      98.7 %    56.6 %    0            1.2 %      4.6 (8.1)
//     5 %                        0      99.9 %    96.7 %    0            0          3.0 (4.6)
//     no, beside load            0           -         -         -       0          1.5 (1.7)
//     3 %, beside load           0      99.6 %    99.6 %    0            0.3 %      1.6 (2.2)
//     every 20th step doubled    0      99.5 %    67 %      0            0.4 %      4.3 (7.6)
//     every 10th step + 60 %     0      99.9 %    85 %      0            0.0 %      3.5 (6.4)
//     every 3rd step + 15 %      0     100 %      75 %      0            0          3.8 (7.0)
//     3 %, own starts vary 2 %   0      45.9 %    16.1 %    0           53.8 %      6.9 (9.2)
//     3 %, own starts vary 4 %   0       6.4 %     2.9 %    0           93.4 %      7.7 (9.2)
//     no, own starts vary 4 %    0       0           -      54.9 %      45.2 %      7.6 (9.0)
//
// None in 1200 is at most 0.25 % (95 %). Three or four gates of a line were unfit, because chance
// set the control apart. gate_power_test makes these gates, a few of each in every run; with
// GRADSYNC_GATES=1200 all of them, in minutes. Stored starts are few, so the table says what the
// rule does with such noise, and not how often a machine has it: that is counted over independent
// gates in results/gate.
//
// What this does not see: rows whose shifts are rare and large (a start in fifty lands badly) vary
// too little in a few starts to know it; against an alarm there is the confirmation, against a
// silent pass nothing but more starts. What a build draws once and for all, the layout of its code,
// is part of its effect.
//
// Also thought of, and not done. Wilcoxon's signed-rank test of the turns, exact whatever the noise
// looks like, as a second test that must agree: it takes turns of one start for independent, so it
// never was the one that kept the error rate, and asked for 16 turns where two starts say enough.
// "Slower in every start" has probability 2^-k under equal chances, whatever the spread: too much
// for 32 tests with any k that can be paid. Winsorized means: what is cut off a disturbed block is
// cut off a stall.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "harness/gate/settings.h"
#include "harness/gate/turns.h"
#include "harness/stats/interval.h"
#include "harness/stats/moderated_variance.h"
#include "harness/stats/variance_components.h"

namespace gradsync::gate {

enum class Measure { Low, Mean };
inline constexpr std::array kMeasures = {Measure::Low, Measure::Mean};

// Something of each measure, by Measure.
template <typename Value>
struct ByMeasure {
  std::array<Value, kMeasures.size()> values{};
  Value& operator[](Measure measure) { return values[static_cast<std::size_t>(measure)]; }
  const Value& operator[](Measure measure) const {
    return values[static_cast<std::size_t>(measure)];
  }
};

// One measure of one row, turn by turn; the three lists are of one length.
struct Differences {
  std::vector<int> start;         // which start the turn belongs to; never falls
  std::vector<double> candidate;  // against the baseline's build (above)
  std::vector<double> control;    // against the baseline
  Measure measure = Measure::Low;

  std::size_t turns() const { return start.size(); }
  Differences first(std::size_t turns) const;
};
using RowDifferences = ByMeasure<Differences>;

// Returns both measures of these turns: of each block the `low_quantile` of its steps (linear
// between order statistics, stats::quantile) and their mean, which is elapsed time over steps.
// Errors: InternalError where a block is empty or a step is not positive.
RowDifferences differences(const std::vector<Turn>& turns, double low_quantile);

// One measure of one row, start by start; both lists are of one length.
struct Shifts {
  std::vector<double> candidate;
  std::vector<double> control;

  std::size_t starts() const { return candidate.size(); }
  Shifts first(std::size_t starts) const;
};

// Returns the shift of each start, in their order (above). `values`: one for each turn, of which
// `start` says the start.
std::vector<double> shifts_of(const std::vector<double>& values, const std::vector<int>& start,
                              Measure measure);

// Returns the shifts of the starts of `row`, in their order.
Shifts shifts_of(const Differences& row);

// Returns how many starts the first `turns` turns of `row` are of.
std::size_t starts_within(const Differences& row, std::size_t turns);

// How much the shift of one start varies, as variances with their degrees of freedom, which are 0
// where the starts are too few to say.
struct StartSpread {
  stats::Variance slower;      // for "slower"
  stats::Variance not_slower;  // for "not slower": the candidate's own
  stats::Variance control;     // for questions about the control
};

// Returns the variance of shifts about their own mean.
stats::Variance own_spread(const std::vector<double>& shifts);

// Returns the spread of one row by itself. Where three processes of one kind vary by s from start
// to start, the candidate's difference varies by 1.5 s^2 and the control's by 2 s^2, independently
// of each other. So k starts of both know 1.5 s^2 with 2 k - 1 degrees of freedom: the candidate's
// shifts about their own mean, k - 1, and 3/4 of the control's about 0, which is where the same
// build is, k. For questions about the control itself both vary about their own means, or else a
// control that is off would hide behind the spread that it makes: 2 k - 2.
StartSpread start_spread(const Shifts& row);

// Returns the spreads of the same measure of several rows, each moderated by the others, except
// those for "not slower", which stay as they are.
std::vector<StartSpread> moderated(const std::vector<StartSpread>& rows);

// Chances of at least such differences where the statement is just not true.
struct PValues {
  double slower = 1;          // the candidate is slower than the margin
  double not_slower = 1;      // the candidate is not slower by the smallest effect
  double control_slower = 1;  // the control is slower than the margin
  double control_faster = 1;  // the control is faster than the margin
};

// Returns the p-value of Student's t for "the shifts lie above `threshold`"; 1 without shifts, or
// where `spread` has no degrees of freedom.
double above_p(const std::vector<double>& shifts, double threshold, const stats::Variance& spread);

// Returns the p-values of all starts of `row`, none spent on looks yet.
PValues p_values(const Shifts& row, const StartSpread& spread, double margin,
                 double smallest_effect);

// By how much something is slower, as a share: 0.03 is 3 %, -0.01 is 1 % faster.
struct Effect {
  double value = 0;
  std::optional<stats::Interval> ci95;  // absent where there are too few starts
};

// Returns the mean of the shifts with the 95 % interval of those that above_p refuses in neither
// direction. Nothing without shifts.
std::optional<Effect> effect_of(const std::vector<double>& shifts, const stats::Variance& spread);

// Returns the components of the candidate's differences: between starts, and between the turns of a
// start. As variances of a logarithm; their roots read as shares.
stats::VarianceComponents components(const Differences& row);

// Returns how many turns would decide a row with this mean `shift` (a logarithm), in starts of
// `start_turns`, with a chance of 90 %: for "slower" at level `alpha`, or for "not slower" at level
// `miss_rate`, whichever takes fewer. Student's t with the spread as it is; more than `more_than`.
int turns_to_decide(double shift, const stats::Variance& spread, double margin,
                    double smallest_effect, double alpha, double miss_rate, int start_turns,
                    int more_than);

}  // namespace gradsync::gate
