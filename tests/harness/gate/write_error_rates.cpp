// Writes the error rates of gates that were made up into a file, for the tests of plot/ and of the
// schema: write_error_rates FILE
#include <cstdint>
#include <cstdio>
#include <fstream>

#include "harness/gate/error_rates.h"
#include "tests/harness/gate/synthetic_turns.h"

int main(int argc, char** argv) {
  using namespace gradsync::gate;
  if (argc != 2) {
    std::fputs("usage: write_error_rates FILE\n", stderr);
    return 2;
  }
  const auto pool_of = [](double extra_work, std::uint64_t seed) {
    return synthetic_pool({.extra_work = extra_work,
                           .rows = 4,
                           .starts = 40,
                           .drift_per_turn = 0.0005,
                           .start_sd = 0.003,
                           .block_sd = 0.01,
                           .seed = seed});
  };
  const TurnFamily equal = synthetic_family({});
  ErrorRates rates{"made_up",
                   equal.context,
                   ten_starts(),
                   control_shifts({{"made up", equal}}, ten_starts()),
                   {}};
  const GatePool same = pool_of(0, 1);
  rates.replays.push_back(replay_relabelled(same, rates.settings, {.labellings = 25}));
  std::uint64_t seed = 2;
  for (const double extra_work : {0.01, 0.02, 0.03, 0.05, 0.1}) {
    rates.replays.push_back(
        replay_one_row_slowed(pool_of(extra_work, seed++), same, rates.settings));
  }
  std::ofstream(argv[1]) << to_json(rates).dump(1) << "\n";
  return 0;
}
