// Low-rank updates that several tests try.
#pragma once

#include <array>
#include <cstdint>

#include "models/unit_levers.h"

namespace gradsync::test {

inline constexpr std::array kEachLoraModules{models::LoraModules::QueryValue,
                                             models::LoraModules::Attention,
                                             models::LoraModules::AllLinear};

// Runs pairwise combinations of the rank of a BERT's updates, the layers that have them and the
// checkpointed units: 9 in all.
template <typename Run>
void for_each_low_rank(const Run& run) {
  constexpr std::array<std::int64_t, 3> kRanks{1, 3, 24};
  int number = 0;
  for (std::size_t i = 0; i < kRanks.size(); ++i) {
    for (const int every : {0, 1, 2}) {
      const models::LoraUpdates lora{kRanks[i],
                                     kEachLoraModules[(i + static_cast<std::size_t>(every)) % 3]};
      run(models::UnitLevers{.checkpointed = {every}, .lora = lora}, number++);
    }
  }
}

}  // namespace gradsync::test
