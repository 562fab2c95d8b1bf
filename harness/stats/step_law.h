// What a step costs, as a law of its micro-batches and its synchronizations:
//
//     T = f + m c + s a
//
// of m micro-batches that cost c each, s of which also reduce gradients, a each, and f once per
// step, whatever it holds (the optimizer). With strategies that synchronize every micro-batch (s =
// m) and once per step (s = 1), over several m, the three costs can be separated: per micro-batch,
// the one shows c + a and the other c, and f + a is the rest of the other.
#pragma once

#include <optional>
#include <vector>

namespace gradsync::stats {

// A measured step. Its time is positive.
struct StepPoint {
  double micro_batches = 0;  // m
  double syncs = 0;          // s
  double step_s = 0;         // T
};

struct StepLaw {
  double fixed_s = 0;        // f
  double micro_batch_s = 0;  // c
  double sync_s = 0;         // a

  double step_s(const StepPoint& point) const {
    return fixed_s + point.micro_batches * micro_batch_s + point.syncs * sync_s;
  }
  // How far the law is off as a share of what was measured: 0.03 is 3 % too long.
  double error(const StepPoint& point) const { return step_s(point) / point.step_s - 1; }
};

// Returns the law with the least sum of squared errors, relative ones, since a long step varies by
// more seconds than a short one; nothing if the points do not separate the three costs (fewer than
// three, or one strategy alone).
// Errors: InternalError where a time is not positive.
// Source: ordinary least squares by its normal equations, each point weighted by 1 / T.
std::optional<StepLaw> fit_step_law(const std::vector<StepPoint>& points);

// Returns for each point whether it is held out of the fit, to check the law: those with every
// second of the different numbers of micro-batches, in ascending order. So the smallest number is
// fitted, some lie between fitted ones, and if there is an even number of them, the largest lies
// beyond.
std::vector<bool> held_out(const std::vector<StepPoint>& points);

// A law beside the points that it has not seen.
struct CheckedStepLaw {
  StepLaw law;
  std::vector<bool> held_out;  // of each point
};

// Returns the law that is fitted without the points held out. If the remaining points do not
// separate the costs, returns the law that is fitted to all, with none held out; nothing if those
// do not separate them either.
std::optional<CheckedStepLaw> fit_and_check_step_law(const std::vector<StepPoint>& points);

}  // namespace gradsync::stats
