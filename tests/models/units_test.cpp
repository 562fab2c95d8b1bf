// How models divide into units, and what may happen around each of them.
// Covers: mlp.cpp.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "harness/base/clock.h"
#include "models/data.h"
#include "models/model.h"
#include "models/pace.h"

namespace gradsync::models {
namespace {

using testing::ElementsAreArray;

struct Divided {
  std::string model;
  std::vector<std::string> units;
  std::vector<std::string> of_the_whole;  // beginnings of the names of parameters in no unit
};

std::vector<std::string> numbered(const std::string& prefix, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  return names;
}

std::vector<std::string> paced_units() {
  std::vector<std::string> names{"embeddings"};
  for (const std::string& name : numbered("encoder.layer.", 12)) names.push_back(name);
  names.push_back("head");
  return names;
}

class Units : public testing::TestWithParam<Divided> {
 protected:
  Units() {
    ModelOptions options;
    options.pace = host_pace(clock_);
    const ModelEntry entry = find_model(GetParam().model);
    if (entry.compute == Compute::Paced) options.scale = 1000;
    model_ = entry.make(options);
    model_->eval();  // no dropout
  }

  at::Tensor loss() {
    DataOptions data;
    data.micro_batch_size = 2;
    data.sequence_length = 8;
    if (model_->vocabulary_size() > 0) data.vocabulary_size = model_->vocabulary_size();
    return model_->loss(DataLoader(data, 1).next());
  }

  // Which unit a parameter belongs to; -1: none.
  std::map<std::string, int> owners() const {
    std::map<std::string, int> result;
    const std::vector<Unit> units = model_->units();
    for (const auto& item : model_->named_parameters()) result[item.key()] = -1;
    for (std::size_t i = 0; i < units.size(); ++i) {
      for (const std::string& name : units[i].parameters) result.at(name) = static_cast<int>(i);
    }
    return result;
  }

  FakeClock clock_;
  std::shared_ptr<Model> model_;
};

TEST_P(Units, AreItsLayersInTheOrderOfForward) {
  std::vector<std::string> names;
  for (const Unit& unit : model_->units()) names.push_back(unit.name);
  EXPECT_THAT(names, ElementsAreArray(GetParam().units));
}

TEST_P(Units, HoldEveryParameterOfTheirLayerOnceAndInOrder) {
  std::vector<std::string> in_units;
  for (const Unit& unit : model_->units()) {
    for (const std::string& name : unit.parameters) {
      in_units.push_back(name);
      if (GetParam().model.starts_with("paced")) continue;  // its layers' names are its own
      EXPECT_TRUE(name.starts_with(unit.name)) << name << " in " << unit.name;
    }
  }
  std::vector<std::string> expected;
  for (const auto& item : model_->named_parameters()) {
    const bool of_the_whole = std::ranges::any_of(
        GetParam().of_the_whole,
        [&](const std::string& beginning) { return item.key().starts_with(beginning); });
    if (!of_the_whole) expected.push_back(item.key());
  }
  EXPECT_EQ(in_units, expected);
}

struct Call {
  std::string what;
  std::size_t unit;
  bool operator==(const Call&) const = default;
};

// Notes every call, and every gradient that comes back through a unit's output.
class Notes : public UnitHooks {
 public:
  at::Tensor before_forward(std::size_t unit, at::Tensor input) override {
    calls.push_back({"before", unit});
    inputs.push_back(input);
    return input;
  }
  at::Tensor after_forward(std::size_t unit, at::Tensor output) override {
    calls.push_back({"after", unit});
    outputs.push_back(output);
    output.register_hook([this, unit](const at::Tensor&) { backward.push_back({"output", unit}); });
    return output;
  }
  std::vector<Call> calls;
  std::vector<Call> backward;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
};

TEST_P(Units, HooksSeeWhatGoesInAndWhatComesOut) {
  Notes notes;
  model_->set_unit_hooks(&notes);
  loss();
  const std::size_t count = model_->units().size();
  std::vector<Call> expected;
  for (std::size_t i = 0; i < count; ++i) {
    expected.push_back({"before", i});
    expected.push_back({"after", i});
  }
  ASSERT_EQ(notes.calls, expected);
  for (std::size_t i = 0; i + 1 < count; ++i) {
    EXPECT_TRUE(notes.outputs[i].is_same(notes.inputs[i + 1])) << i;
    EXPECT_FALSE(notes.outputs[i].is_same(notes.inputs[i])) << i;
  }
}

// What gathers parameters before a unit's backward, and frees them after, relies on this.
TEST_P(Units, BackwardRunsThroughAUnitsOutputBeforeItReachesItsParameters) {
  Notes notes;
  model_->set_unit_hooks(&notes);
  const std::map<std::string, int> owners = this->owners();
  for (const auto& item : model_->named_parameters()) {
    const int owner = owners.at(item.key());
    if (owner < 0) continue;
    item.value().register_hook([&notes, owner](const at::Tensor&) {
      notes.backward.push_back({"parameter", static_cast<std::size_t>(owner)});
    });
  }
  loss().backward();
  std::vector<Call> expected;
  const std::vector<Unit> units = model_->units();
  for (std::size_t i = units.size(); i-- > 0;) {
    expected.push_back({"output", i});
    expected.insert(expected.end(), units[i].parameters.size(), {"parameter", i});
  }
  EXPECT_EQ(notes.backward, expected);
}

TEST_P(Units, HooksThatReturnTheirTensorsChangeNothing) {
  const at::Tensor without = loss();
  Notes notes;
  model_->set_unit_hooks(&notes);
  EXPECT_TRUE(loss().equal(without));
  model_->set_unit_hooks(nullptr);
  notes.calls.clear();
  EXPECT_TRUE(loss().equal(without));
  EXPECT_EQ(notes.calls.size(), 0);
}

// Cuts the graph in two, before or after a unit.
class Cut : public UnitHooks {
 public:
  Cut(std::size_t unit, bool before) : unit_(unit), before_(before) {}
  at::Tensor before_forward(std::size_t unit, at::Tensor input) override {
    return before_ && unit == unit_ ? input.detach() : input;
  }
  at::Tensor after_forward(std::size_t unit, at::Tensor output) override {
    return !before_ && unit == unit_ ? output.detach() : output;
  }

 private:
  std::size_t unit_;
  bool before_;
};

TEST_P(Units, ForwardGoesOnFromTheTensorAHookReturns) {
  const std::map<std::string, int> owners = this->owners();
  for (const bool before : {true, false}) {
    Cut cut(1, before);
    model_->set_unit_hooks(&cut);
    loss().backward();
    for (const auto& item : model_->named_parameters()) {
      const int owner = owners.at(item.key());
      if (owner < 0) continue;
      EXPECT_EQ(item.value().grad().defined(), before ? owner >= 1 : owner > 1) << item.key();
      item.value().mutable_grad().reset();
    }
  }
}

TEST_P(Units, RunWithoutAGraphToo) {
  const at::Tensor with_graph = loss();
  class Count : public UnitHooks {
   public:
    at::Tensor after_forward(std::size_t unit, at::Tensor output) override {
      EXPECT_FALSE(output.requires_grad());
      ++calls;
      return output;
    }
    std::size_t calls = 0;
  } count;
  model_->set_unit_hooks(&count);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(loss().equal(with_graph));
  EXPECT_EQ(count.calls, model_->units().size());
}

INSTANTIATE_TEST_SUITE_P(
    Models, Units,
    testing::Values(Divided{"mlp", numbered("layer", 3), {}},
                    Divided{"convnet", numbered("layer", 3), {"head."}},
                    Divided{"bert_tiny",
                            numbered("bert.encoder.layer.", 2),
                            {"bert.embeddings.", "bert.pooler.", "classifier."}},
                    Divided{"mixtral_tiny",
                            numbered("model.layers.", 2),
                            {"model.embed_tokens.", "model.norm.", "lm_head."}},
                    Divided{"paced_bert_base_t4", paced_units(), {}}),
    [](const auto& info) { return info.param.model; });

}  // namespace
}  // namespace gradsync::models
