// A model and a network small enough to be worked by hand.
#pragma once

#include <utility>
#include <vector>

#include "harness/predict/network.h"
#include "harness/predict/step_schedule.h"

namespace gradsync::predict::test {

// Three layers: forward 1 s and backward 2 s each, and a parameter of 1000 elements, 4000 bytes.
inline StepModel three_layers() {
  StepModel model;
  model.name = "three_layers";
  for (const char* name : {"a", "b", "c"}) model.layers.push_back({name, 1, 2, {1000}});
  model.optimizer_s = 0.5;
  return model;
}

// Two nodes of a rank: an all_reduce of 4000 bytes takes 2 (n - 1) / n of them, `seconds` long.
inline Network two_nodes(double seconds_of_4000_bytes) {
  Network network;
  network.nodes = 2;
  network.inter = Link{4000 / seconds_of_4000_bytes, 0};
  return network;
}

// A bucket for each layer's 4000 bytes.
inline StepOptions each_layer(std::vector<bool> syncs) {
  StepOptions options;
  options.syncs = std::move(syncs);
  options.buckets = {4000, 4000};
  return options;
}

}  // namespace gradsync::predict::test
