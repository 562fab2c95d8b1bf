#include "tests/harness/gate/synthetic_turns.h"

#include <array>
#include <cmath>
#include <numbers>

#include "harness/stats/random.h"

namespace gradsync::gate {
namespace {

constexpr double kStep = 0.01;
constexpr int kStallEvery = 200;

// A normal value of Box and Muller's.
double normal(stats::Random& random) {
  constexpr std::uint64_t kFine = 1ULL << 53;
  const double u = static_cast<double>(random.below(kFine) + 1) / static_cast<double>(kFine);
  const double v = static_cast<double>(random.below(kFine)) / static_cast<double>(kFine);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

std::vector<double> block(const Synthetic& synthetic, double shift, stats::Random& random) {
  const double mood = shift + synthetic.block_sd * normal(random);
  std::vector<double> steps;
  for (int i = 0; i < synthetic.block_steps; ++i) {
    const double stall = random.below(kStallEvery) == 0 ? 2 : 1;
    steps.push_back(kStep * stall * std::exp(mood + synthetic.step_sd * normal(random)));
  }
  return steps;
}

RowTurns row_of(const Synthetic& synthetic, int number, const std::vector<StartDraw>& draws,
                stats::Random& random) {
  const nlohmann::json cell{{"strategy", "no_sync"}, {"accumulation_steps", number + 1}};
  RowTurns row{"", cell, {}};
  for (int start = 0; start < synthetic.starts; ++start) {
    std::array<double, kArms.size()> layout{};
    for (double& arm : layout) arm = synthetic.start_sd * normal(random);
    const Arm third = draws[static_cast<std::size_t>(start)].order.back();
    layout[static_cast<std::size_t>(third)] -= synthetic.third_place;
    for (const ArmOrder& order : turn_orders(synthetic.turns_per_start, random)) {
      Turn& turn = row.turns.emplace_back();
      turn.start = start;
      turn.order = order;
      const double drift = synthetic.drift_per_turn * static_cast<double>(row.turns.size());
      for (const Arm arm : order) {
        const double extra = arm == Arm::Candidate ? std::log1p(synthetic.extra_work) : 0;
        const double shift = layout[static_cast<std::size_t>(arm)] + drift + extra;
        turn.of(arm) = block(synthetic, shift, random);
      }
    }
  }
  return row;
}

}  // namespace

TurnFamily synthetic_family(const Synthetic& synthetic) {
  stats::Random random(synthetic.seed);
  TurnFamily family;
  family.context = {{"gradsync", "0.1.0"}, {"plan", "synthetic"}};
  family.extra_work = synthetic.extra_work;
  family.passes = synthetic.passes;
  family.settle_steps = 1;
  stats::Random of_draws(synthetic.seed + 1000);
  family.starts = start_draws(static_cast<std::size_t>(synthetic.starts), of_draws);
  for (int row = 0; row < synthetic.rows; ++row) {
    family.rows.push_back(row_of(synthetic, row, family.starts, random));
  }
  return family;
}

Settings ten_starts() {
  Settings settings;
  settings.miss_rate = 0.01;
  settings.start_turns = 4;
  settings.looks = {{8, 0.5, 0.0}, {24, 0.5, 1.0}};
  settings.confirmation_turns = 16;
  return settings;
}

GatePool synthetic_pool(const Synthetic& synthetic) {
  return gate_pools({{"synthetic", synthetic_family(synthetic)}}, ten_starts()).front();
}

}  // namespace gradsync::gate
