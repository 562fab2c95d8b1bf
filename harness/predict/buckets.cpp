#include "harness/predict/buckets.h"

#include "models/footprint.h"

namespace gradsync::predict {
namespace {

// Calls `each` with the layer and the elements of every gradient, in the order they become ready.
template <typename Each>
void in_order_of_readiness(const StepModel& model, Each each) {
  for (std::size_t layer = model.layers.size(); layer-- > 0;) {
    const std::vector<std::int64_t>& elements = model.layers[layer].elements;
    for (std::size_t i = elements.size(); i-- > 0;) each(layer, elements[i]);
  }
}

}  // namespace

std::vector<Bucket> reducer_buckets(const StepModel& model, const memory::BucketLimits& limits) {
  std::vector<Bucket> buckets;
  Bucket open;
  memory::BucketFilling filling(limits);
  in_order_of_readiness(model, [&](std::size_t layer, std::int64_t elements) {
    open.elements += elements;
    open.layer = layer;
    if (!filling.add(elements * models::kFloatBytes)) return;
    buckets.push_back(open);
    open = {};
  });
  if (open.elements > 0) buckets.push_back(open);
  return buckets;
}

std::vector<Bucket> tensors_after_backward(const StepModel& model) {
  std::vector<Bucket> tensors;
  in_order_of_readiness(model, [&](std::size_t, std::int64_t elements) {
    tensors.push_back({elements, 0});
  });
  return tensors;
}

}  // namespace gradsync::predict
