// A model of three units and some parameters in none, and every way to shard it. For tests.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/sync/fsdp/fsdp.h"
#include "models/model.h"
#include "tests/harness/sync/ranks.h"

namespace gradsync::test {

// Two parameters outside of its three units, one at each end; `extra` serves only batches whose
// labels say so. 8 + 3 x (64 + 8 + 8) + 32 elements: not divisible by 3, so that shards are padded.
class ToyLayers : public models::Model {
 public:
  struct Layer : torch::nn::Module {
    Layer() {
      w = register_parameter("w", at::sin(at::arange(64, at::kFloat)).reshape({8, 8}) / 3);
      b = register_parameter("b", at::full({8}, 0.01));
      extra = register_parameter("extra", at::full({8}, 0.02));
    }
    at::Tensor w, b, extra;
  };

  // `frozen`: the names of parameters that are not trained.
  explicit ToyLayers(const std::vector<std::string>& frozen = {}) {
    embed_ = register_parameter("embed", at::cos(at::arange(32, at::kFloat)).reshape({4, 8}));
    for (int i = 0; i < 3; ++i) {
      layers_.push_back(register_module("layer" + std::to_string(i), std::make_shared<Layer>()));
    }
    head_ = register_parameter("head", at::full({8}, 0.3));
    for (const std::string& name : frozen) named_parameters()[name].set_requires_grad(false);
  }

  std::vector<models::Unit> units() const override {
    std::vector<models::Unit> units;
    for (int i = 0; i < 3; ++i) {
      const std::string name = "layer" + std::to_string(i);
      units.push_back({name, {name + ".w", name + ".b", name + ".extra"}});
    }
    return units;
  }

  at::Tensor loss(const models::Batch& batch) override {
    const bool with_extra = batch.labels.sum().item<std::int64_t>() > 0;
    at::Tensor x = at::matmul((batch.input_ids / 10.0).to(embed_.scalar_type()), embed_);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      x = run_unit(i, x, [&](const at::Tensor& h) {
        at::Tensor y = at::tanh(at::matmul(h, layers_[i]->w.t()) + layers_[i]->b);
        if (with_extra) y = y * (layers_[i]->extra + 1);
        return y;
      });
    }
    return (x * head_).sum(-1).to(at::kFloat).pow(2).mean();
  }

 private:
  at::Tensor embed_, head_;
  std::vector<std::shared_ptr<Layer>> layers_;
};

// Every choice of resharding and prefetch.
inline std::vector<sync::FsdpOptions> all_options() {
  std::vector<sync::FsdpOptions> all;
  for (const bool forward : {true, false}) {
    for (const bool backward : {true, false}) {
      for (const bool prefetch : {true, false}) {
        sync::FsdpOptions options;
        options.reshard_after_forward = forward;
        options.reshard_after_backward = backward;
        options.prefetch = prefetch;
        all.push_back(options);
      }
    }
  }
  return all;
}

// Groups of hybrid sharding, as if each `ranks_per_node` consecutive ranks were a node. Collective;
// once for a layout.
inline sync::FsdpGroups hybrid_groups(const RankHarness& rank, int ranks_per_node) {
  const int node = rank.rank / ranks_per_node;
  const int place = rank.rank % ranks_per_node;
  const std::string layout = std::to_string(ranks_per_node) + " per node, ";
  return {subgroup(rank, layout + "node " + std::to_string(node), place, ranks_per_node),
          subgroup(rank, layout + "place " + std::to_string(place), node,
                   rank.world_size / ranks_per_node)};
}

}  // namespace gradsync::test
