// What a gate promises, and how much it measures to keep the promise.
//
// Three numbers say what counts as slower. Up to the `margin` a shift passes: trivial but real.
// From the `smallest_effect` on the gate promises to see it. Between the two either verdict is
// right. `alpha` bounds false alarms of the whole gate, `miss_rate` bounds the silent pass of one
// row that is slower by the smallest effect.
//
// Looks. At preset numbers of turns the decision is looked at, and a clear row ends there. Two
// questions are asked at each look, is it slower and is it not slower, and the error rate of each
// is dealt out over the looks by fixed weights: a p-value of look k counts as p / weight_k.
// Stopping anywhere keeps the rates. Why these weights, for 16 rows with two measures each, so 32
// tests, at alpha = 1 %; n turns, all of them slower, have p = 2^-n, and a test that is first in
// Holm's order needs weight x 1 % / 32:
//
//     turns   smallest p   slower: weight x 3.1e-4            not slower: weight x 1 %
//         8     3.9e-3     0.0: out of reach, spend nothing   0.4 x 1 % = 4.0e-3: 8 of 8 needed
//        16     1.5e-5     0.4: 1.2e-4, 8 times the smallest  0.3: 3.0e-3
//        24     6.0e-8     0.6: 1.9e-4, 3145 times            0.3: 3.0e-3
//
// 1.2e-4 lets 16 turns have ranks of up to 4 in sum on the wrong side, 1.9e-4 lets 24 turns have
// ranks of up to 33: a few turns that were disturbed do not hide a slower row.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradsync::gate {

// One preset point at which it is decided; weights over all looks sum to 1 for each question.
struct Look {
  int turns = 0;  // of a row, all starts so far together
  double slower_weight = 0;
  double not_slower_weight = 0;
};

// Returns those of the table above.
std::vector<Look> default_looks();

struct Settings {
  double margin = 0.01;           // larger: more shifts pass; 0.01 is 1 %
  double smallest_effect = 0.03;  // smaller: more turns are needed to pass
  // The mean step sees every stall, so on a shared machine it spreads several times as much as the
  // low quantile. It is there for what the low quantile cannot see, intermittent stalls: a step of
  // three times its length in every 20th is 10 %. The margin is that of the low quantile, because a
  // mean that is surely above it is a regression; but a pass at 3 % would never be reached.
  double mean_smallest_effect = 0.10;
  double alpha = 0.01;         // chance of any false alarm in a gate without a regression
  double miss_rate = 0.01;     // chance that a row slower by the smallest effect passes
  double low_quantile = 0.25;  // of a block's steps; smaller: fewer disturbances, fewer steps count
  std::vector<Look> looks = default_looks();
  // Turns of a row in one start of the arms; even. Smaller: more starts for the same turns, so that
  // what a start draws averages out and is better known, but more time spent on starting, and a
  // start's shift is moved by fewer stalled blocks (4 turns bear one, 8 bear two).
  int start_turns = 4;
  int confirmation_turns = 16;  // in fresh starts
  // The clearest of the rows that were found slower, at most so many: one is enough for a
  // regression, and each takes its turns.
  int confirmed_rows = 4;
  double block_s = 0.12;  // of timed steps; larger: less noise per turn, fewer turns per minute
  // A block is cut into so many passes, and the arms take turns pass by pass; even, so that every
  // order is followed by its mirror. More: what disturbs the machine for a tenth of a second meets
  // all arms and not one, but more time goes into settling.
  int passes = 4;
  int settle_steps = 1;  // untimed, after each switch: caches and links find their state
};

// Returns how many timed steps of `step_s` seconds a pass has: as many as fill its share of
// block_s, at least 2.
int pass_steps(const Settings& settings, double step_s);

// Refuses settings that make no sense. `file`: where they come from, for messages.
// Errors: ConfigError with file and field.
void validate(const Settings& settings, const std::string& file);

// Returns the smallest alpha at which a row among `rows` can be found slower and be confirmed, when
// every turn says so: 2^-turns / weight of the best look, or 2^-turns of the confirmation where
// that is more, times the tests. And the smallest miss rate at which a row can be found not slower.
// Infinite where no look has a weight.
double smallest_reachable_alpha(const Settings& settings, int rows);
double smallest_reachable_miss_rate(const Settings& settings);

// Refuses an alpha or a miss rate that so many rows cannot reach, naming the smallest they can.
// Errors: ConfigError.
void check_reachable(const Settings& settings, int rows, const std::string& file);

// Returns the settings with the first `looks` looks only, their weights scaled to sum to 1 again:
// for a time budget that allows no more. Decided before anything is measured, so both error rates
// hold. A question that has no weight in them keeps none: it stays open.
Settings with_first_looks(const Settings& settings, std::size_t looks);

// Returns whether any look can find a row slower; where none can, rows pass or stay undecided.
bool can_find_slower(const Settings& settings);

// Returns every setting by its name, as stored with a verdict.
nlohmann::json to_json(const Settings& settings);

}  // namespace gradsync::gate
