// Prints what both say of each case, as JSON; null for SimGrid where it is not there.
//
// usage: print_second_opinion PROFILE [--closed-form-only]
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "models/profile.h"
#include "tests/harness/predict/second_opinion/simulated.h"

int main(int argc, char** argv) {
  using namespace gradsync::predict;
  if (argc < 2) {
    fmt::print(stderr, "usage: print_second_opinion PROFILE [--closed-form-only]\n");
    return 2;
  }
  const bool simulates = second_opinion::has_simgrid() && argc == 2;
  const auto cases = second_opinion::cases(gradsync::models::read_profile(argv[1]));
  const auto seconds = simulates ? second_opinion::simulated_s(cases) : std::vector<double>{};
  auto rows = nlohmann::json::array();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const second_opinion::Case& each = cases[i];
    rows.push_back({{"what", each.what},
                    {"nodes", each.network.nodes},
                    {"ranks_per_node", each.network.ranks_per_node},
                    {"closed_form_s", second_opinion::closed_form_s(each)},
                    {"simulated_s", simulates ? nlohmann::json(seconds[i]) : nlohmann::json()}});
  }
  fmt::print("{}\n", rows.dump(1));
}
