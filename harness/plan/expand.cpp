#include <cstdint>
#include <numeric>
#include <random>
#include <utility>

#include "harness/base/grouped.h"
#include "harness/plan/plan.h"

namespace gradsync::plan {

namespace {

// Uniform in [0, bound). The standard's own distributions differ between libraries, and the same
// seed must mean the same order everywhere.
std::uint64_t draw_below(std::mt19937_64& generator, std::uint64_t bound) {
  const std::uint64_t limit = generator.max() - generator.max() % bound;
  std::uint64_t drawn = generator();
  while (drawn >= limit) drawn = generator();
  return drawn % bound;
}

// A permutation of 0 .. size-1 (Fisher and Yates). Every round has a generator of its own, so that
// more launches or rounds leave the order of the earlier ones as it was.
std::vector<std::size_t> draw_order(std::size_t size, std::uint64_t seed, std::size_t part,
                                    std::size_t group, int launch, int round) {
  std::seed_seq words{seed & 0xffffffffU,
                      seed >> 32U,
                      std::uint64_t{part},
                      std::uint64_t{group},
                      static_cast<std::uint64_t>(launch),
                      static_cast<std::uint64_t>(round)};
  std::mt19937_64 generator(words);
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = size; i > 1; --i) std::swap(order[i - 1], order[draw_below(generator, i)]);
  return order;
}

// Timed steps of one trial: `steps`, or this trial's share of `total_steps`, the first ones getting
// what does not divide.
int steps_of(const Part& part, int launch, int round) {
  if (part.total_steps == 0) return part.steps;
  const int trials = part.launches * part.rounds;
  const int trial = launch * part.rounds + round;
  return part.total_steps / trials + (trial < part.total_steps % trials ? 1 : 0);
}

// From the same start and the same data every launch comes to the same distances: once is enough.
int distance_steps_of(const Part& part, int launch, int round) {
  return launch == 0 && round == 0 ? part.distance_steps : 0;
}

}  // namespace

std::vector<Launch> expand(const Plan& plan) {
  // Cells that one start of the ranks can hold: same network, same link rates.
  const auto network = [](const Cell& cell) { return std::pair(cell.topology, cell.scale); };
  std::vector<Launch> launches;
  int order = 0;
  for (std::size_t p = 0; p < plan.parts.size(); ++p) {
    const Part& part = plan.parts[p];
    const auto groups = grouped(part.cells, network);
    for (int launch = 0; launch < part.launches; ++launch) {
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const auto& cells = groups[g];
        Launch start{part.name, cells.front()->topology, launch, cells.front()->scale, {}};
        for (int round = 0; round < part.rounds; ++round) {
          for (const auto i : draw_order(cells.size(), plan.seed, p, g, launch, round)) {
            start.trials.push_back({order++, *cells[i], round, steps_of(part, launch, round),
                                    part.warmup_steps, distance_steps_of(part, launch, round),
                                    part.timed && plan.backend != "fake"});
          }
        }
        launches.push_back(std::move(start));
      }
    }
  }
  return launches;
}

}  // namespace gradsync::plan
