// The models whose steps are predicted: each small, and with what it says of itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/footprint.h"
#include "models/model.h"

namespace gradsync::test {

// A model, and what it says of itself.
struct Subject {
  std::string name;
  // The model uses only the rank of its updates among the levers.
  std::function<std::shared_ptr<models::Model>(const models::UnitLevers&)> make;
  std::function<models::Footprint(const models::MicroBatchShape&, const models::UnitLevers&)>
      footprint;
};

// All: a perceptron, a BERT, a Mixtral, and a paced model without and with recorded memory.
std::vector<Subject> subjects();

// Those whose units may be checkpointed and frozen.
std::vector<Subject> subjects_with_units();

Subject bert();
// The same, whose attention is torch's own.
Subject bert_with_sdpa();

// How many units may be frozen, so that something is left to train: a BERT's and a Mixtral's heads,
// and of the perceptron its last layer.
int most_frozen(const Subject& subject);

}  // namespace gradsync::test
