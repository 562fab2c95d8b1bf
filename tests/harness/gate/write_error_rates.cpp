// Writes the error rates of gates that were made up into a file, for the tests of plot/ and of the
// schema: write_error_rates FILE
#include <cstdio>
#include <fstream>

#include "harness/gate/error_rates.h"
#include "harness/stats/random.h"
#include "tests/harness/gate/synthetic_turns.h"

int main(int argc, char** argv) {
  using namespace gradsync::gate;
  if (argc != 2) {
    std::fputs("usage: write_error_rates FILE\n", stderr);
    return 2;
  }
  ErrorRates rates{"made_up", synthetic_family({}).context, Settings{}, {}};
  gradsync::stats::Random random(1);
  for (const double extra_work : {0.0, 0.01, 0.02, 0.03, 0.05, 0.1}) {
    const StartPool pool = synthetic_pool({.extra_work = extra_work,
                                           .rows = 4,
                                           .starts = 40,
                                           .drift_per_turn = 0.0005,
                                           .start_sd = 0.003,
                                           .block_sd = 0.01});
    rates.replays.push_back(replay_independent(pool, rates.settings));
    rates.replays.push_back(replay_reused(pool, rates.settings, 10, random));
  }
  std::ofstream(argv[1]) << to_json(rates).dump(1) << "\n";
  return 0;
}
