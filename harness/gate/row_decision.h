// What the turns of one row say: by how much the candidate is slower, and how sure that is.
//
// A row is decided on two measures of a block's steps: its low quantile, which hardly feels the
// neighbours, and its mean, which feels every stall. A turn gives one difference of each, the
// logarithm of candidate over baseline, and one of control over baseline, which is 0 but for
// chance.
//
// One question, two tests, and both must say yes. "Are the differences above a threshold?" is asked
//
// 1. of the turns, by Wilcoxon's signed-rank test (stats/signed_rank.h): exact, whatever the noise
//    looks like, and deaf to outliers; and
// 2. of the starts, by Student's t: the shift of each start, a Hodges-Lehmann estimate over its
//    turns, and how much shifts vary from start to start.
//
// The larger p-value counts, which is right as long as either test is. Why the second one: where
// memory, threads and links land is drawn once per start and shifts all its turns alike, so turns
// are not independent, and the first test takes a lucky draw for a fact (in brackets below).
//
// Four starts of one row know the spread with 5.8 degrees of freedom, six with 9 (start_spread). At
// the first of 32 tests Student's t then asks for 8.0 and 5.5 standard errors, where a known spread
// would need 3.7 and 3.6. So what a start can draw is learnt from more than the candidate's shifts:
// the control is a start of the same kind whose shift is known to be 0, and the other rows are
// starts of the same kind as far as their variances agree (stats/moderated_variance.h); 16 rows
// that agree come to 4.0 and 3.9. But only "slower" may lean on other rows, because it is confirmed
// in fresh starts (verdict.h). "Not slower" is final, so there a row stands for itself: when it
// leant too, a row that was 3 % slower, with shifts of 2 % among rows with 0.1 %, passed in 41 of
// 300 simulated gates instead of 1.
//
// False alarms and power that remain, simulated with the default settings and with seeds that the
// rule was not chosen on: 16 rows, shifts that vary by `start sd`, turns that vary by 1 % about
// their start's shift. Gates with a false alarm where all rows are the same, of 1000; where all are
// slower by just the margin, of 500 (in brackets: by the first test alone, at 24 turns, without
// confirmation). Then one row is slower by 3 %, 1000 gates, or by 5 %, 500 gates: how often it is a
// regression, and how often it passes; otherwise it is undecided. Last, how many of the rows that
// are the same pass, and after how many turns.
//
//     start sd   same   margin     3 %: found   passes   5 %: found in 16 turns   same rows pass
//     0 %        0      0  (1)     100 %        0        100 %                    100 %    10.8
//     0.2 %      0      0  (5)     100 %        0        100 %                    100 %    11.2
//     0.5 %      0      0 (20)     98.8 %       0.2 %    100 %                    100 %    13.0
//     1 %        0      0 (99)     60.3 %       0.5 %    99 %                     98.5 %   16.4
//
// None in 1000 is at most 0.3 %, none in 500 at most 0.6 % (95 %). So a row of which a start draws
// more than about half the margin costs power, not honesty: the gate says "undecided" more often.
//
// So does noise: with turns that vary by 2 % (the mean by 2.8 %) 3 % is found in 70 of 150 gates;
// where a tenth of all blocks stall, by a third of their time on average, in 15 of 150, and 61 % of
// the rows that are the same pass. Neither had an alarm or a pass of the slower row.
//
// What this does not see: rows whose shifts are rare and large (a start in fifty lands badly) vary
// too little in six starts to know it; against an alarm there is the confirmation, against a silent
// pass nothing but more starts. What a build draws once and for all, the layout of its code, is
// part of its effect.
//
// Also thought of, and not done. "Slower in every start" has probability 2^-k under equal chances,
// whatever the spread: too much for 32 tests with any k that can be paid. Widening the margin by
// the measured spread is the same t in other words, without an error rate to name. The signed-rank
// test on the shifts of starts alone cannot get below 2^-6.
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
  std::vector<double> candidate;  // log(candidate / baseline)
  std::vector<double> control;    // log(control / baseline)

  std::size_t turns() const { return start.size(); }
  Differences first(std::size_t turns) const;
};
using RowDifferences = ByMeasure<Differences>;

// Returns both measures of these turns: of each block the `low_quantile` of its steps (linear
// between order statistics, stats::quantile) and their mean.
// Errors: InternalError where a block is empty or a step is not positive.
RowDifferences differences(const std::vector<Turn>& turns, double low_quantile);

// Returns the Hodges-Lehmann estimate of each start's values, in the order of the starts.
std::vector<double> start_shifts(const std::vector<double>& values, const std::vector<int>& start);

// How much the shift of one start varies, as variances with their degrees of freedom, which are 0
// where the starts are too few to say.
struct StartSpread {
  stats::Variance slower;      // for "slower"
  stats::Variance not_slower;  // for "not slower": always the row's own
  stats::Variance control;     // for questions about the control
};

// Returns the spread of one row by itself. The candidate's shifts vary about their own mean; the
// control's about 0, which is where the same build is. For questions about the control itself both
// vary about their own means, or else a control that is off would hide behind the spread that it
// makes.
// The two share the baseline, so they agree to one half, and k starts have
// (2 k - 1)^2 / (2 k - 1 + (k - 1) / 2) degrees of freedom, not 2 k - 1, and
// (2 k - 2)^2 / (2 k - 2 + (k - 1) / 2) for the control (Satterthwaite's rule: twice the squared
// expectation over the variance, of normal values).
StartSpread start_spread(const Differences& row);

// Returns two estimates of one variance as one, by their degrees of freedom.
stats::Variance pooled(const stats::Variance& a, const stats::Variance& b);

// Returns the spreads of the same measure of several rows, each moderated by the others; but for
// "not slower" they stay as they are.
std::vector<StartSpread> moderated(const std::vector<StartSpread>& rows);

// Chances of at least such differences where the statement is just not true.
struct PValues {
  double slower = 1;          // the candidate is slower than the margin
  double not_slower = 1;      // the candidate is not slower by the smallest effect
  double control_slower = 1;  // the control is slower than the margin
  double control_faster = 1;  // the control is faster than the margin
};

// Returns the larger p-value of both tests (above) for "values lie above `threshold`"; 1 without
// values, or where `spread` has no degrees of freedom. `start` says which values share a start.
double above_p(const std::vector<double>& values, const std::vector<int>& start, double threshold,
               const stats::Variance& spread);

// Returns the p-values of all turns of `row`, none spent on looks yet.
PValues p_values(const Differences& row, const StartSpread& spread, double margin,
                 double smallest_effect);

// By how much something is slower, as a share: 0.03 is 3 %, -0.01 is 1 % faster.
struct Effect {
  double value = 0;
  std::optional<stats::Interval> ci95;  // absent where there are too few turns or starts
};

// Returns the Hodges-Lehmann estimate over all turns with the 95 % interval of the shifts that
// above_p refuses in neither direction: whatever either test allows. Nothing without values.
std::optional<Effect> effect_of(const std::vector<double>& values, const std::vector<int>& start,
                                const stats::Variance& spread);

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
