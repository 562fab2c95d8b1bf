#include "models/footprint.h"

#include <numeric>
#include <utility>

#include "models/footprints.h"

namespace gradsync::models {

namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

}  // namespace

std::int64_t Footprint::elements() const {
  std::int64_t sum = sum_of(other_parameters);
  for (const UnitFootprint& unit : units) sum += sum_of(unit.parameters);
  return sum;
}

std::int64_t Footprint::frozen_elements() const {
  std::int64_t sum = sum_of(other_frozen);
  for (const UnitFootprint& unit : units) sum += sum_of(unit.frozen);
  return sum;
}

PassScript frozen_pass(const UnitKind& kind, std::int64_t input, const UnitForward& forward) {
  const std::int64_t random_state = kind.checkpointed ? kRandomStateBytes : 0;
  PassScript pass;
  pass.forward.hold({random_state});
  const MemoryScript unit = forward(MemoryScript(MemoryScript::Saved::Forgotten, kind.kept));
  pass.forward.then(unit);
  pass.forward.free_kept(unit);
  pass.forward.free({random_state, input});
  return pass;
}

PassScript checkpointed_pass(const UnitKind& kind, const UnitForward& forward,
                             const UnitForward& again, MemoryScript backward) {
  PassScript pass;
  pass.forward.hold({kRandomStateBytes});
  pass.forward.then(forward(MemoryScript(MemoryScript::Saved::Forgotten, kind.kept)));
  pass.again.hold({kRandomStateBytes});  // to go on from afterwards
  pass.again.then(again(MemoryScript(MemoryScript::Saved::Kept, kind.kept)));
  pass.again.free({kRandomStateBytes});
  pass.backward = std::move(backward);
  return pass;
}

std::size_t Footprint::tensors() const {
  std::size_t count = other_parameters.size();
  for (const UnitFootprint& unit : units) count += unit.parameters.size();
  return count;
}

}  // namespace gradsync::models
