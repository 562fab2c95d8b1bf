#include "harness/sync/recomputation.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/measure/memory.h"

namespace gradsync::sync {

models::Recomputation recomputation_of(const models::Model& model, models::CheckpointedUnits units,
                                       measure::StepRecorder* recorder) {
  std::vector<std::string> names;
  for (const models::Unit& unit : model.units()) names.push_back(unit.name);
  auto outside = std::make_shared<const measure::MemoryPlace>();
  const auto on_rerun = [names, recorder, outside](std::size_t unit, bool begins) mutable {
    if (recorder != nullptr) {
      recorder->enter(begins ? measure::Phase::Recompute : measure::Phase::Backward);
    }
    if (begins) {
      outside = measure::meter().place();
      measure::meter().set_phase("recompute", names.at(unit));
    } else {
      measure::meter().set_phase(outside->phase, outside->unit);
    }
  };
  return {units, on_rerun};
}

}  // namespace gradsync::sync
