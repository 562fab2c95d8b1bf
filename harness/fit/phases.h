// At which point of a training step a moment lies, by what gradsync watch saw of the process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::fit {

enum class Phase { BeforeTraining, Forward, Backward, Optimizer, Between };

struct StepPlace {
  int step = 0;         // from 1
  int micro_batch = 0;  // from 1; of the optimizer's phase the last one
  Phase phase = Phase::BeforeTraining;
};

class Phases {
 public:
  explicit Phases(const watch::RankEvents& rank);

  // Between two backwards is forward, whether or not a wrapper's was seen; between the last one of
  // a step and the optimizer, and behind that until something is computed, is "between".
  StepPlace at(std::int64_t time_ns) const;

 private:
  struct Span {
    std::int64_t start_ns, end_ns;
  };
  bool is_within_a_backward(const Span& span) const;

  std::vector<Span> backwards_, optimizers_, forwards_;  // each in the order of time
};

// "step 1, micro-batch 2, backward"
std::string words_of(const StepPlace& place);

}  // namespace gradsync::fit
