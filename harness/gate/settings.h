// What a gate promises, and how much it measures to keep the promise.
//
// Three numbers say what counts as slower. Up to the `margin` a shift passes: trivial but real.
// From the `smallest_effect` on the gate promises to see it. Between the two either verdict is
// right. `alpha` bounds false alarms of the whole gate, `miss_rate` bounds the silent pass of one
// row that is slower by the smallest effect.
//
// Looks. After preset numbers of starts the decision is looked at, and a clear row ends there. Two
// questions are asked at each look, is it slower and is it not slower, and the error rate of each
// is dealt out over the looks by fixed weights: a p-value of look k counts as p / weight_k. So the
// rates hold wherever it stops, by a verdict or because the time is up, and the rows that are hard
// to tell may take ten times the turns of the others: those cost little once most rows are closed.
//
// Many looks cost little, too: with 14 of equal weight each must reach 1/14 of a level, which is
// half a standard error more than with one. "Slower" is asked from the second start on, leaning on
// the other rows for what a start may draw (row_decision.h); "not slower" stands on the row's own
// starts and needs at least five to be worth asking: at 0.2 %, dealt out over its eleven looks,
// Student's t wants 11.2 standard errors of 5 starts, 6.4 of 8, 4.7 of 15.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradsync::gate {

// As the defaults have it: the mean step spreads so much more than the low quantile.
inline constexpr double kMeanToSmallestEffect = 4.0 / 3;

// One preset point at which it is decided; weights over all looks sum to 1 for each question.
struct Look {
  int turns = 0;  // of a row, all starts so far together
  double slower_weight = 0;
  double not_slower_weight = 0;
};

// Returns 14 looks, after 2 to 33 starts of `start_turns` turns.
std::vector<Look> default_looks(int start_turns);

struct Settings {
  double margin = 0.01;           // larger: more shifts pass; 0.01 is 1 %
  double smallest_effect = 0.03;  // smaller: more turns are needed to pass
  // The mean step sees every stall, so it spreads more than the low quantile, by a third on a quiet
  // machine. It is there for what the low quantile cannot see, slow-downs that come and go: every
  // 20th step doubled is 5 % of the mean. Larger: gates end sooner, and stalls of this size pass.
  double mean_smallest_effect = 0.04;
  double alpha = 0.01;         // chance of any false alarm in a gate without a regression
  double miss_rate = 0.002;    // chance that a row slower by the smallest effect passes
  double low_quantile = 0.25;  // of a block's steps; smaller: fewer disturbances, fewer steps count
  // Turns of a row in one start of the arms; even. Smaller: more starts for the same turns, so that
  // what a start draws averages out and is better known, but more time spent on starting, and a
  // stall that comes once in many steps meets the same few places of every start.
  int start_turns = 10;
  std::vector<Look> looks = default_looks(10);
  int confirmation_turns = 100;  // in fresh starts
  // A confirmation is tested at so many times alpha. The looks by themselves keep alpha, so this
  // only says how hard a finding must be hit again. Larger: fewer fresh starts confirm it.
  double confirmation_factor = 1;
  // The clearest of the rows that were found slower, at most so many at once: one is enough for a
  // regression, and each takes its turns.
  int confirmed_rows = 2;
  double block_s = 0.06;  // of timed steps; larger: less noise per turn, fewer turns per minute
  // A block is cut into so many passes, and the arms take turns pass by pass; even, so that every
  // order is followed by its mirror. More: what disturbs the machine for a tenth of a second meets
  // all arms and not one, but more time goes into switching.
  int passes = 2;
  // Untimed steps after each switch. The first step after a switch takes 1 % longer, in all arms;
  // leaving it out costs a third of the time, and what always falls on it is never seen.
  int settle_steps = 0;
  // Steps after the warm-up of a start that are not timed, drawn anew for each start and row from 0
  // to one less than this; the same in all arms. So what happens in every n-th step since the start
  // meets other turns in every start.
  int phase_steps = 8;
};

// Returns the settings of the short form, which takes two minutes of times for four rows: it is
// designed to find 5 %, looks first after three starts, and confirms one row in four fresh starts.
// What else was tried, with figures: results/gate/README.md.
Settings short_form();

// Returns the level at which a confirmation is tested.
double confirmation_level(const Settings& settings);

// Returns how many timed steps of `step_s` seconds a pass has: as many as fill its share of
// block_s, at least 2.
int pass_steps(const Settings& settings, double step_s);

// Refuses settings that make no sense. `file`: where they come from, for messages.
// Errors: ConfigError with file and field.
void validate(const Settings& settings, const std::string& file);

// Returns the settings with starts of so many turns, and the same looks in starts: for stored turns
// of other lengths.
Settings with_start_turns(const Settings& settings, int start_turns);

// Returns the settings of a gate that ends after so many starts, those of its confirmation
// included: with the looks until then, as a time budget ends them, so that weights stay. The
// confirmation takes at most two fifths of the starts. With the first look at least, whatever
// `starts` is.
Settings within_starts(const Settings& settings, int starts);

// Returns the turns of the first look at which a row can pass, and whether any look can find a row
// slower: a question without a weight stays open. All turns where no look has a weight for it.
int turns_to_pass(const Settings& settings);
bool can_find_slower(const Settings& settings);

// Returns every setting by its name, as stored with a verdict.
nlohmann::json to_json(const Settings& settings);

}  // namespace gradsync::gate
