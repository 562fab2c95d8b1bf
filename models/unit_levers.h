// The levers of a model's units that save memory: which units are checkpointed, so that they keep
// no activations and run again in backward, which are frozen, with or without low-rank updates, and
// in which type they compute.   No torch.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/kernels.h"

namespace gradsync::models {

// Outputs that a checkpointed unit keeps and does not compute again.
enum class KeptOutputs {
  None,
  Attention,  // of fused attention; spelled out, of its second product
  Matmul,     // of every matrix product, and of fused attention, which is two
};

// As `selective_checkpointing` of a plan names them.
constexpr KeptOutputs kept_outputs(std::string_view name) {
  if (name == "attention") return KeptOutputs::Attention;
  return name == "matmul" ? KeptOutputs::Matmul : KeptOutputs::None;
}

// Counted as in torchtitan's selective checkpointing of layers: every second unit means those with
// index 1, 3, 5, ...
struct CheckpointedUnits {
  int every = 0;  // each n-th unit; 1: all, 0: none
  KeptOutputs kept = KeptOutputs::None;

  bool has(std::size_t unit) const {
    return every > 0 && (unit + 1) % static_cast<std::size_t>(every) == 0;
  }
};

// Linear layers of a BERT that may have low-rank updates; each value includes those before it.
enum class LoraModules {
  QueryValue,  // of each layer, as peft has by default
  Attention,   // keys and attention's output
  AllLinear,   // feed-forward and the pooler, as peft's "all-linear": all but the classifier
};

// As `lora_modules` of a plan names them.
constexpr LoraModules lora_modules(std::string_view name) {
  if (name == "all_linear") return LoraModules::AllLinear;
  return name == "attention" ? LoraModules::Attention : LoraModules::QueryValue;
}

// Low-rank updates that are trained in place of a model's weights (models/lora.h).
struct LoraUpdates {
  std::int64_t rank = 0;  // 0: there are none, the weights are trained
  LoraModules modules = LoraModules::QueryValue;

  // Returns the rank of the update beside layers of `which`; 0: they have none.
  std::int64_t rank_beside(LoraModules which) const { return which <= modules ? rank : 0; }
};

// Levers of a model, as far as they change what a micro-batch makes.
struct UnitLevers {
  CheckpointedUnits checkpointed = {};
  std::size_t frozen = 0;  // units from the first on (models/frozen_units.h)
  LoraUpdates lora = {};
  std::int64_t element_bytes = 4;  // of parameters and what is computed: float32; bfloat16: 2
  Kernels kernels = {};

  bool freezes(std::size_t unit) const { return unit < frozen; }
  // Returns whether the input of unit `unit` comes only from frozen parameters, and needs no
  // gradient.
  bool reads_what_is_frozen(std::size_t unit) const {
    if (lora.rank > 0) return unit == 0;
    return frozen > 0 && unit <= frozen;
  }
};

// Units of one model that are alike in this make the same tensors.
struct UnitKind {
  UnitKind(const UnitLevers& levers, std::size_t unit)
      : frozen(levers.freezes(unit)),
        checkpointed(levers.checkpointed.has(unit)),
        kept(checkpointed ? levers.checkpointed.kept : KeptOutputs::None),
        last_to_run(unit == levers.frozen),
        constant_input(levers.reads_what_is_frozen(unit)) {}

  bool frozen;
  bool checkpointed;
  KeptOutputs kept;     // to run again
  bool last_to_run;     // of all backwards
  bool constant_input;  // needs no gradient

  auto operator<=>(const UnitKind&) const = default;  // NOLINT(modernize-use-nullptr): not written
};

}  // namespace gradsync::models
