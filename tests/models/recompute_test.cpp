// Activation checkpointing: the same bits with less kept, by hand-made stretches and by the suite's
// models.
#include "models/recompute.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "models/data.h"
#include "models/model.h"
#include "models/pace.h"

namespace gradsync::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

at::Tensor leaf(double from) {
  return at::linspace(from, from + 1, 6).view({2, 3}).set_requires_grad(true);
}

// tanh saves what it makes, dropout its mask; the sum saves nothing.
at::Tensor noisy(const at::Tensor& x) {
  return at::dropout(at::tanh(x * 2), 0.5, /*train=*/true) + 1;
}

struct Ended {
  at::Tensor output;
  at::Tensor gradient;
  at::Tensor next_random;  // drawn after all
};

template <typename Run>
Ended from_seed(const Run& run) {
  at::manual_seed(3);
  const at::Tensor x = leaf(0);
  const at::Tensor output = run(x);
  const at::Tensor between = at::rand({2});
  output.sum().backward();
  return {output.detach(), x.grad(), at::cat({between, at::rand({2})})};
}

TEST(Recompute, GivesTheSameBitsAndLeavesTheSameRandomNumbers) {
  const Ended kept = from_seed(noisy);
  const Ended again = from_seed([](const at::Tensor& x) {
    return run_checkpointed(x, {noisy, {}});
  });
  EXPECT_TRUE(again.output.equal(kept.output));
  EXPECT_TRUE(again.gradient.equal(kept.gradient));
  EXPECT_TRUE(again.next_random.equal(kept.next_random));
}

TEST(Recompute, RunsAgainOnceWhenBackwardComesToItAndSaysSo) {
  std::vector<std::string> calls;
  const auto stretch = [&](const std::string& name) -> CheckpointedStretch {
    return {[&calls, name](const at::Tensor& x) {
              calls.push_back("run " + name);
              return at::exp(at::tanh(x));
            },
            [&calls, name](bool begins) { calls.push_back((begins ? "begin " : "end ") + name); }};
  };
  const at::Tensor x = leaf(0);
  const at::Tensor y = run_checkpointed(run_checkpointed(x, stretch("a")), stretch("b"));
  EXPECT_THAT(calls, ElementsAre("run a", "run b"));
  y.sum().backward();
  EXPECT_THAT(calls, ElementsAre("run a", "run b", "begin b", "run b", "end b", "begin a", "run a",
                                 "end a"));
}

// The last saved tensor is tanh's output: what comes after it is not computed a second time.
TEST(Recompute, EndsWithTheLastTensorThatBackwardNeeds) {
  int after_the_last = 0;
  const at::Tensor x = leaf(0);
  const at::Tensor y = run_checkpointed(x, {[&](const at::Tensor& input) {
                                              const at::Tensor made = at::tanh(input);
                                              ++after_the_last;
                                              return made + 1;
                                            },
                                            {}});
  y.sum().backward();
  EXPECT_EQ(after_the_last, 1);
  EXPECT_TRUE(x.grad().allclose(1 - at::tanh(x.detach()).pow(2)));
}

TEST(Recompute, KeepsItsInputAloneUntilItsBackwardIsDone) {
  using Memory = std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>>;
  Memory input;
  Memory inside;
  const at::Tensor x = leaf(0);
  at::Tensor y;
  {
    const at::Tensor fed = x * 2;
    input = fed.storage().getWeakStorageImpl();
    y = run_checkpointed(fed, {[&](const at::Tensor& z) {
                                 const at::Tensor made = at::tanh(z);
                                 inside = made.storage().getWeakStorageImpl();
                                 return made * made;
                               },
                               {}});
  }
  EXPECT_FALSE(input->expired());
  EXPECT_TRUE(inside->expired()) << "forgotten when forward is done";
  const at::Tensor sum = y.sum();
  y.reset();
  sum.backward();
  EXPECT_TRUE(input->expired());
  EXPECT_TRUE(inside->expired()) << "and again in backward";
}

TEST(Recompute, WithoutGradientsKeepsNothingAndRunsOnce) {
  int runs = 0;
  const at::NoGradGuard no_grad;
  const at::Tensor y = run_checkpointed(leaf(0), {[&](const at::Tensor& x) {
                                                    ++runs;
                                                    return at::tanh(x);
                                                  },
                                                  {}});
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(y.requires_grad());
}

std::string complaint_of_backward(
    const std::function<at::Tensor(const at::Tensor&, int)>& forward) {
  int runs = 0;
  const at::Tensor y =
      run_checkpointed(leaf(0), {[&](const at::Tensor& x) { return forward(x, ++runs); }, {}});
  try {
    y.sum().backward();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Recompute, RefusesASecondRunThatMakesSomethingElse) {
  EXPECT_THAT(complaint_of_backward([](const at::Tensor& x, int run) {
                return at::tanh(run == 1 ? x : x.narrow(0, 0, 1)).sum();
              }),
              HasSubstr("made a tensor of Float 1 x 3, expected one of Float 2 x 3"));
  EXPECT_THAT(complaint_of_backward([](const at::Tensor& x, int run) {
                return run == 1 ? at::tanh(at::tanh(x)) : at::tanh(x);
              }),
              HasSubstr("made 1 tensors for backward, expected the 2"));
}

TEST(CheckpointedUnits, AreCountedFromTheNthOn) {
  const auto those = [](int every) {
    std::vector<int> units;
    for (int i = 0; i < 6; ++i) {
      if (CheckpointedUnits{every}.has(static_cast<std::size_t>(i))) units.push_back(i);
    }
    return units;
  };
  EXPECT_THAT(those(0), ElementsAre());
  EXPECT_THAT(those(1), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(those(2), ElementsAre(1, 3, 5));
  EXPECT_THAT(those(4), ElementsAre(3));
}

struct TrainedSteps {
  std::vector<at::Tensor> losses;
  std::vector<at::Tensor> gradients;
  std::vector<std::string> ready;  // in the order in which they were complete
};

// Three micro-batches, with dropout where the model has it.
TrainedSteps trained_steps(const std::string& name, const CheckpointedUnits& units) {
  const auto model = find_model(name).make({});
  model->set_recomputation({units, {}});
  DataOptions data;
  data.micro_batch_size = 3;
  data.sequence_length = 9;
  if (model->vocabulary_size() > 0) data.vocabulary_size = model->vocabulary_size();
  DataLoader loader(data, 3);
  TrainedSteps result;
  for (const auto& item : model->named_parameters()) {
    item.value().register_hook([&result, key = item.key()](const at::Tensor& gradient) {
      result.ready.push_back(key);
      return gradient;
    });
  }
  at::manual_seed(11);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor loss = model->loss(loader.next());
    loss.backward();
    result.losses.push_back(loss.detach());
  }
  for (const at::Tensor& parameter : model->parameters()) {
    result.gradients.push_back(parameter.grad());
  }
  return result;
}

class CheckpointedModels : public testing::TestWithParam<const char*> {};

TEST_P(CheckpointedModels, TrainTheSameBitsInTheSameOrder) {
  const TrainedSteps kept = trained_steps(GetParam(), {});
  const int units = find_model(GetParam()).checkpointable_units;
  ASSERT_GE(units, 2);
  std::vector<CheckpointedUnits> all{{1, KeptOutputs::Attention}, {1, KeptOutputs::Matmul}};
  for (int every = 1; every <= units; ++every) all.push_back({every});
  for (const CheckpointedUnits& checkpointed : all) {
    SCOPED_TRACE(testing::Message() << "every " << checkpointed.every << ", keeping "
                                    << static_cast<int>(checkpointed.kept));
    const TrainedSteps again = trained_steps(GetParam(), checkpointed);
    EXPECT_EQ(again.ready, kept.ready);
    for (std::size_t i = 0; i < kept.losses.size(); ++i) {
      EXPECT_TRUE(again.losses[i].equal(kept.losses[i]));
    }
    for (std::size_t i = 0; i < kept.gradients.size(); ++i) {
      EXPECT_TRUE(again.gradients[i].equal(kept.gradients[i])) << kept.ready[i];
    }
  }
}

TEST_P(CheckpointedModels, RunAgainThoseUnitsThatAreNamed) {
  const auto model = find_model(GetParam()).make({});
  std::vector<std::size_t> begun;
  model->set_recomputation({{2}, [&](std::size_t unit, bool begins) {
                              if (begins) begun.push_back(unit);
                            }});
  DataOptions data;
  if (model->vocabulary_size() > 0) data.vocabulary_size = model->vocabulary_size();
  model->loss(DataLoader(data, 1).next()).backward();
  EXPECT_THAT(begun, ElementsAre(1));
}

INSTANTIATE_TEST_SUITE_P(Suite, CheckpointedModels,
                         testing::Values("mlp", "bert_tiny", "mixtral_tiny"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CheckpointedModels, TheSuiteSaysWhichOfItsModelsMayBe) {
  for (const ModelEntry& entry : registry()) {
    const bool may = entry.name == "mlp" || entry.name.starts_with("bert") ||
                     entry.name.starts_with("mixtral") || entry.name.starts_with("paced");
    EXPECT_EQ(entry.checkpointable_units > 0, may) << entry.name;
  }
  EXPECT_EQ(find_model("bert_base").checkpointable_units, 12);
}

TEST(CheckpointedModels, EveryLayerOfAPacedOneMayBe) {
  const ModelEntry entry = find_model("paced_bert_base_t4");
  ModelOptions options;
  options.scale = 1000;
  options.pace = host_pace(steady_clock());
  EXPECT_EQ(entry.checkpointable_units, entry.make(options)->units().size());
}

}  // namespace
}  // namespace gradsync::models
