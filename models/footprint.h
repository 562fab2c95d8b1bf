// The sizes of a model's tensors, known without making any: its parameters and buffers, and the
// tensors that a micro-batch makes and frees, in order. Memory can then be predicted to the byte
// for any number of ranks, and for a model too large to be made.
//
// A script is kept instead of a highest value, because wrappers act in between: they gather a
// unit's parameters before it runs and reduce its gradients when they are complete, and which of
// that coincides with which activations decides the peak. Every line of a script is a tensor of the
// model's own arithmetic; the sizes are those of the kernels of torch 2.11: the CPU's, on one
// thread, or a GPU's (UnitLevers).   No torch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "models/kernels.h"
#include "models/unit_levers.h"

namespace gradsync::models {

inline constexpr std::int64_t kFloatBytes = 4;
inline constexpr std::int64_t kLongBytes = 8;
// The state of the CPU's random numbers, as a tensor: a checkpointed unit keeps it to run again.
inline constexpr std::int64_t kRandomStateBytes = 5056;

struct MemoryEvent {
  enum class Kind {
    Hold,     // a tensor is made
    Free,     // one goes
    Gradient  // a parameter's gradient, made before, is complete: from here it is the wrapper's
  };
  Kind kind = Kind::Hold;
  std::int64_t bytes = 0;
  bool is_operand = false;  // a number beside a tensor, which a GPU takes from the host
};

class MemoryScript {
 public:
  using Sizes = std::initializer_list<std::int64_t>;  // in bytes
  enum class Saved : bool { Forgotten, Kept };        // what operations save for their backward

  MemoryScript() = default;
  // `kept`: of a checkpointed unit, what it keeps. Where what is saved is forgotten, it runs for
  // the first time and lets go of none of that; else it runs again, and all of that is there
  // already.
  explicit MemoryScript(Saved saved, KeptOutputs kept = KeptOutputs::None)
      : saved_(saved), kept_(kept) {}

  void hold(Sizes sizes) { add(MemoryEvent::Kind::Hold, sizes); }
  void free(Sizes sizes) { add(MemoryEvent::Kind::Free, sizes); }
  // What an operation needs while it runs, and a sum of many rows.
  void needs(Sizes sizes) {
    hold(sizes);
    free(sizes);
  }
  void needs(const SumBuffers& buffers) { needs({buffers.partial_sums, buffers.counters}); }
  // From here on backward alone needs these: they stay, or go where what is saved is forgotten.
  void saved(Sizes sizes) {
    if (saved_ == Saved::Forgotten) free(sizes);
  }
  // As hold(), free() and saved(), of outputs of operations that a checkpointed unit may keep: of
  // products (Matmul) or of attention (Attention).
  void made(KeptOutputs by, Sizes sizes) {
    if (!is_taken(by)) hold(sizes);
  }
  void gone(KeptOutputs by, Sizes sizes) {
    if (!stays(by)) return free(sizes);
    kept_sizes_.insert(kept_sizes_.end(), sizes);
  }
  void made_and_saved(KeptOutputs by, Sizes sizes) { stays(by) ? gone(by, sizes) : saved(sizes); }
  // What such an operation needs while it runs.
  void within(KeptOutputs by, Sizes sizes) {
    if (!is_taken(by)) needs(sizes);
  }
  // Frees the outputs that `unit` keeps for its second run.
  void free_kept(const MemoryScript& unit) {
    for (const std::int64_t bytes : unit.kept_sizes_) free({bytes});
  }

  // Parameters' gradients reach their accumulators in this order.
  void gradients(Sizes sizes) { add(MemoryEvent::Kind::Gradient, sizes); }
  // An operation on a tensor and a number, which becomes a double and then an element of the
  // tensor's type, each a tensor.
  void with_number(std::int64_t result, std::int64_t element_bytes = kFloatBytes) {
    add(MemoryEvent::Kind::Hold, {kDoubleBytes, element_bytes}, true);
    hold({result});
    add(MemoryEvent::Kind::Free, {element_bytes, kDoubleBytes}, true);
  }
  // The same on integers, where the number needs no other type.
  void with_integer(std::int64_t result) {
    add(MemoryEvent::Kind::Hold, {kLongBytes}, true);
    hold({result});
    add(MemoryEvent::Kind::Free, {kLongBytes}, true);
  }

  // And after all this, `other`.
  void then(const MemoryScript& other) {
    events_.insert(events_.end(), other.events_.begin(), other.events_.end());
  }

  const std::vector<MemoryEvent>& events() const { return events_; }

 private:
  static constexpr std::int64_t kDoubleBytes = 8;
  void add(MemoryEvent::Kind kind, Sizes sizes, bool are_operands = false) {
    for (const std::int64_t bytes : sizes) {
      if (bytes > 0) events_.push_back({kind, bytes, are_operands});
    }
  }
  // Keeping products includes keeping attention.
  bool is_kept(KeptOutputs by) const { return kept_ == KeptOutputs::Matmul || kept_ == by; }
  bool stays(KeptOutputs by) const { return is_kept(by) && saved_ == Saved::Forgotten; }
  bool is_taken(KeptOutputs by) const { return is_kept(by) && saved_ == Saved::Kept; }

  Saved saved_ = Saved::Kept;
  KeptOutputs kept_ = KeptOutputs::None;
  std::vector<std::int64_t> kept_sizes_;
  std::vector<MemoryEvent> events_;
};

// A part of a model on its way through a micro-batch. What forward and again leave, backward frees.
struct PassScript {
  MemoryScript forward;
  MemoryScript backward;
  MemoryScript again;  // of a checkpointed unit: what runs again before backward; else empty
};

struct UnitFootprint {
  std::string name;                        // as Unit::name
  std::vector<std::int64_t> parameters;    // that are trained: elements of each; may be empty
  std::shared_ptr<const PassScript> pass;  // never null; equal units share one
  std::vector<std::int64_t> frozen = {};   // parameters that are not: elements of each
  bool runs_backward = true;               // false: nothing up to its end is trained
};

// Freezes the unit: none of its parameters is trained, and its pass has no backward.
inline void freeze(UnitFootprint& unit) {
  unit.frozen.swap(unit.parameters);
  unit.runs_backward = false;
}

// The order of a micro-batch: before.forward, each unit's forward, after.forward, which ends with
// the loss, a number; then the loss is divided and its gradient made, which after.backward frees;
// after.backward, each unit's again and backward from the last to the first, before.backward.
struct Footprint {
  std::vector<std::int64_t> other_parameters;  // in no unit, trained: elements of each
  std::vector<std::int64_t> other_frozen;      // in no unit, not trained: elements of each
  std::vector<UnitFootprint> units;            // in the order of forward
  std::vector<std::int64_t> buffer_bytes;
  PassScript before;
  PassScript after;
  std::int64_t element_bytes = kFloatBytes;  // of parameters, and of the loss
  bool adds_biases = false;                  // to matrix products, in the same operation
  bool steps_parameters = true;              // false: a paced model, whose optimizer has no moments

  // Calls `each` with the elements of every parameter that is trained, or is not.
  template <typename Each>
  void each_trained(const Each& each) const {
    std::for_each(other_parameters.begin(), other_parameters.end(), each);
    for (const UnitFootprint& unit : units) {
      std::for_each(unit.parameters.begin(), unit.parameters.end(), each);
    }
  }
  template <typename Each>
  void each_frozen(const Each& each) const {
    std::for_each(other_frozen.begin(), other_frozen.end(), each);
    for (const UnitFootprint& unit : units) {
      std::for_each(unit.frozen.begin(), unit.frozen.end(), each);
    }
  }

  std::int64_t elements() const;  // of parameters that are trained
  std::size_t tensors() const;    // likewise
  std::int64_t frozen_elements() const;
};

// One rank's micro-batch: examples that are not padded.
struct MicroBatchShape {
  std::int64_t examples = 0;
  std::int64_t length = 0;  // in tokens

  std::int64_t tokens() const { return examples * length; }
};

}  // namespace gradsync::models
