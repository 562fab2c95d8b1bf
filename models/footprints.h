// The footprints of the suite's models, each beside the arithmetic it describes: what a model and
// its footprint say is compared byte for byte by tests.   No torch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "models/bert_config.h"
#include "models/footprint.h"
#include "models/mixtral_shapes.h"
#include "models/profile.h"
#include "models/unit_levers.h"

namespace gradsync::models {

// What makes an output that a checkpointed unit may keep: a matrix product, attention.
inline constexpr KeptOutputs kProduct = KeptOutputs::Matmul;
inline constexpr KeptOutputs kAttention = KeptOutputs::Attention;

// The passes of a model's units, one for each kind.
template <typename Make>
class SharedPasses {
 public:
  explicit SharedPasses(Make make) : make_(std::move(make)) {}
  const std::shared_ptr<const PassScript>& of(const UnitKind& kind) {
    std::shared_ptr<const PassScript>& pass = passes_[kind];
    if (!pass) pass = std::make_shared<PassScript>(make_(kind));
    return pass;
  }

 private:
  Make make_;
  std::map<UnitKind, std::shared_ptr<const PassScript>> passes_;
};

// Plays a unit's forward behind what a script has already, and returns both.
using UnitForward = std::function<MemoryScript(MemoryScript)>;

// Returns the pass of a frozen unit, which keeps nothing, not even what it read, `input` bytes, and
// has no backward.
PassScript frozen_pass(const UnitKind& kind, std::int64_t input, const UnitForward& forward);

// Returns the pass of a checkpointed unit. `again`: as much of its forward as runs for `backward`,
// which also lets the state of random numbers go.
PassScript checkpointed_pass(const UnitKind& kind, const UnitForward& forward,
                             const UnitForward& again, MemoryScript backward);

Footprint mlp_footprint(const MicroBatchShape& shape, const UnitLevers& levers = {});

// Nothing for a single example or token, whose products take another way through torch, and for
// more tokens than there are positions.
std::optional<Footprint> bert_footprint(const BertConfig& config, const MicroBatchShape& shape,
                                        const UnitLevers& levers = {});

// With balanced routing. A router that is free to choose gives its experts any number of tokens,
// and what they hold depends on it.
Footprint mixtral_footprint(const MixtralConfig& config, const MicroBatchShape& shape,
                            const UnitLevers& levers = {});

// `scale` as PacedModel has it. Reads no batch.
Footprint paced_footprint(const Profile& profile, int scale);

// The sizes of the perceptron.
inline constexpr std::int64_t kMlpVocabulary = 1000;
inline constexpr std::array<std::int64_t, 4> kMlpWidths{64, 512, 512, 2};

}  // namespace gradsync::models
