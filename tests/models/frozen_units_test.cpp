// Frozen units: which parameters they are, and that what is trained trains as if nothing were
// frozen.
#include "models/frozen_units.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "models/data.h"

namespace gradsync::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::shared_ptr<Model> model_with(const std::string& name, int frozen) {
  auto model = find_model(name).make({});
  freeze_units(*model, frozen);
  return model;
}

std::vector<std::string> trained_of(const std::string& name, int frozen) {
  std::vector<std::string> names;
  const auto model = model_with(name, frozen);
  for (const auto& item : model->named_parameters()) {
    if (item.value().requires_grad()) names.push_back(item.key());
  }
  return names;
}

TEST(FrozenUnits, AreTheFirstOnesAndAllBeforeThem) {
  EXPECT_EQ(trained_of("mlp", 0).size(), 6);
  EXPECT_THAT(trained_of("mlp", 2), ElementsAre("layer2_weight", "layer2_bias"));
  EXPECT_THAT(trained_of("bert_tiny", 2),
              UnorderedElementsAre("bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                   "classifier.weight", "classifier.bias"));
  EXPECT_THAT(trained_of("mixtral_tiny", 2), ElementsAre("model.norm.weight", "lm_head.weight"));
  EXPECT_EQ(trained_of("mixtral_tiny", 1).size(), trained_of("mixtral_tiny", 0).size() / 2 + 1);
}

std::string complaint(const std::string& name, int frozen) {
  try {
    model_with(name, frozen);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(FrozenUnits, LeaveSomethingToTrain) {
  EXPECT_THAT(complaint("mlp", 3), HasSubstr("got 3, which is all of the model"));
  EXPECT_THAT(complaint("mlp", 4), HasSubstr("got 4 of a model with 3 units"));
}

struct Trained {
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;
};

Trained trained(const std::string& name, int frozen) {
  const auto model = model_with(name, frozen);
  DataOptions options;
  options.micro_batch_size = 3;
  options.sequence_length = 8;
  options.vocabulary_size = model->vocabulary_size();
  DataLoader data(options, 1);
  at::manual_seed(5);
  const at::Tensor loss = model->loss(data.next());
  loss.backward();
  Trained result{loss.detach(), {}};
  for (const auto& item : model->named_parameters()) {
    if (item.value().grad().defined()) result.gradients[item.key()] = item.value().grad();
  }
  return result;
}

// Dropout draws the same masks: frozen layers are in training mode, too, as torch has it.
TEST(FrozenUnits, ChangeNoBitOfTheOthersGradients) {
  for (const char* name : {"mlp", "bert_tiny", "mixtral_tiny"}) {
    const Trained whole = trained(name, 0);
    for (const int frozen : {1, 2}) {
      const Trained part = trained(name, frozen);
      EXPECT_TRUE(part.loss.equal(whole.loss)) << name;
      EXPECT_EQ(part.gradients.size(), trained_of(name, frozen).size()) << name;
      for (const auto& [parameter, gradient] : part.gradients) {
        EXPECT_TRUE(gradient.equal(whole.gradients.at(parameter))) << name << ": " << parameter;
      }
    }
  }
}

}  // namespace
}  // namespace gradsync::models
