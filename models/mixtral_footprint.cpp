#include "models/footprints.h"
#include "models/mixtral_operations.h"

namespace gradsync::models {

namespace mixtral {

void rms_norm(const Sizes& sizes, MemoryScript& script, bool constant_input) {
  script.hold({sizes.hidden, sizes.per_token});  // squares, their mean
  script.with_number(0);
  script.free({sizes.hidden});
  script.with_number(sizes.per_token);           // plus eps
  script.hold({sizes.per_token, sizes.hidden});  // inverse root, normed
  script.free({sizes.per_token});
  if (constant_input) {
    script.free({sizes.per_token});
  } else {
    script.saved({sizes.per_token});
  }
  script.hold({sizes.hidden});     // times the weight
  script.free({sizes.per_token});  // the mean
  script.saved({sizes.hidden});    // normed
}

void rms_norm_backward(const Sizes& sizes, bool added, bool ran_again, MemoryScript& script,
                       MemoryScript::Sizes with_input) {
  const std::int64_t x = sizes.hidden;
  const std::int64_t per_token = sizes.per_token;
  script.hold({x, x});              // of normed; of the weight, before the sum
  if (ran_again) script.free({x});  // normed
  script.hold({sizes.vector});
  script.free({x, x, ran_again ? 0 : x});  // before the sum, the gradient that came, normed
  script.gradients({sizes.vector});
  script.hold({x, x, per_token});  // of the inverse root, before and after the sum; of the input
  script.free({x, x});             // the former, and of normed
  if (added) script.free({x});
  script.hold({per_token});  // inverse root: its cube times -1/2
  script.with_number(per_token);
  script.hold({per_token});
  script.free({per_token, per_token, per_token, per_token});
  script.with_number(x);  // mean
  script.free({per_token});
  script.hold({x});  // square: 2 x
  script.with_number(x);
  script.hold({x});
  script.free({x, x, x, x});  // steps of the product, of the squares, the input
  script.free(with_input);
  script.free({x});  // added to the input's
}

void rms_norm_weight_backward(const Sizes& sizes, bool ran_again, MemoryScript& script,
                              MemoryScript::Sizes with_normed) {
  const std::int64_t x = sizes.hidden;
  const auto normed_goes = [&] {
    script.free({x});
    script.free(with_normed);
  };
  script.hold({x});  // before the sum
  if (ran_again) normed_goes();
  script.hold({sizes.vector});
  script.free({x, x});
  if (!ran_again) normed_goes();
  script.gradients({sizes.vector});
}

}  // namespace mixtral

namespace {

PassScript embeddings_pass(const mixtral::Sizes& sizes, bool trained) {
  const std::int64_t positions = sizes.shape.length * kFloatBytes;
  PassScript pass;
  pass.forward.hold({sizes.shape.tokens() * kLongBytes});  // the labels
  // Positions, their angles once and twice, cosine and sine.
  pass.forward.hold({positions, sizes.angles / 2, sizes.angles, sizes.angles, sizes.angles});
  pass.forward.free({sizes.angles, sizes.angles / 2, positions});
  pass.forward.hold({sizes.hidden});
  if (!trained) return pass;
  pass.backward.hold({sizes.embeddings});
  pass.backward.free({sizes.hidden});
  pass.backward.gradients({sizes.embeddings});
  return pass;
}

// Norm, head, loss. `constant_input`: all layers are frozen, and so nothing keeps the angles
// either.
PassScript head_pass(const mixtral::Sizes& sizes, bool constant_input) {
  PassScript pass;
  mixtral::rms_norm(sizes, pass.forward, constant_input);
  pass.forward.hold({sizes.logits});
  if (constant_input) pass.forward.free({sizes.hidden, sizes.angles, sizes.angles});
  pass.forward.hold({sizes.logits});              // log-probabilities
  pass.forward.hold({kFloatBytes, kFloatBytes});  // the loss, its total weight
  pass.forward.free({sizes.logits});
  pass.backward.hold({sizes.logits});
  pass.backward.free({kFloatBytes, sizes.shape.tokens() * kLongBytes, kFloatBytes});
  pass.backward.hold({sizes.logits});
  pass.backward.free({sizes.logits, sizes.logits});
  pass.backward.hold({sizes.embeddings, sizes.hidden});
  pass.backward.free({sizes.logits, sizes.hidden});
  pass.backward.gradients({sizes.embeddings});
  if (constant_input) {
    mixtral::rms_norm_weight_backward(sizes, false, pass.backward);
  } else {
    mixtral::rms_norm_backward(sizes, false, false, pass.backward);
  }
  return pass;
}

}  // namespace

Footprint mixtral_footprint(const MixtralConfig& config, const MicroBatchShape& shape,
                            const UnitLevers& levers) {
  const mixtral::Sizes sizes(config, shape);
  Footprint footprint;
  // Frequencies, and a copy of them.
  const std::int64_t frequencies = config.head_size() / 2 * kFloatBytes;
  footprint.buffer_bytes = {frequencies, frequencies};
  const bool embeddings_are_trained = levers.frozen == 0;
  const auto layers = static_cast<std::size_t>(config.layers);
  footprint.before = embeddings_pass(sizes, embeddings_are_trained);
  footprint.after = head_pass(sizes, levers.reads_what_is_frozen(layers));
  SharedPasses passes([&](const UnitKind& kind) { return mixtral::layer_pass(sizes, kind); });
  for (const MixtralTensor& tensor : mixtral_shapes(config)) {
    std::vector<UnitFootprint>& units = footprint.units;
    if (tensor.unit.empty()) {
      const bool is_embeddings = units.empty();
      (is_embeddings && !embeddings_are_trained ? footprint.other_frozen
                                                : footprint.other_parameters)
          .push_back(tensor.elements());
      continue;
    }
    if (units.empty() || units.back().name != tensor.unit) {
      units.push_back({tensor.unit, {}, passes.of({levers, units.size()})});
    }
    units.back().parameters.push_back(tensor.elements());
  }
  for (std::size_t i = 0; i < levers.frozen; ++i) freeze(footprint.units[i]);
  return footprint;
}

}  // namespace gradsync::models
