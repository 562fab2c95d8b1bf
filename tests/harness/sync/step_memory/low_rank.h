// Low-rank updates that several tests try.
#pragma once

#include <cstdint>

#include "models/unit_levers.h"

namespace gradsync::test {

// Ranks of updates x what is checkpointed, of a BERT.
template <typename Run>
void for_each_low_rank(const Run& run) {
  int number = 0;
  for (const std::int64_t rank : {1, 3, 24}) {
    for (const int every : {0, 1, 2}) {
      run(models::UnitLevers{.checkpointed = {every}, .lora_rank = rank}, number++);
    }
  }
}

}  // namespace gradsync::test
