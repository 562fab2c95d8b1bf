// Covers: mixtral_shapes.cpp.
#include "models/mixtral.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

MixtralConfig tiny_mixtral() {
  return {.layers = 2,
          .hidden = 32,
          .heads = 4,
          .key_value_heads = 2,
          .intermediate = 48,
          .vocabulary = 100};
}

// Rows of 6 and 4 tokens, the rest padding.
Batch padded_batch() {
  Batch batch;
  batch.input_ids = at::tensor({5, 9, 7, 3, 2, 8, 4, 6, 9, 1, 0, 0}, at::kLong).reshape({2, 6});
  batch.attention_mask = batch.input_ids.ne(0).to(at::kLong);
  return batch;
}

Batch row(const Batch& batch, std::int64_t index, std::int64_t length) {
  Batch alone;
  alone.input_ids = batch.input_ids.slice(0, index, index + 1).slice(1, 0, length);
  return alone;
}

// Sixteen tokens to eight experts.
Batch full_batch() {
  Batch batch;
  batch.input_ids = at::arange(16, at::kLong).reshape({2, 8});
  return batch;
}

TEST(MixtralShapes, SumToThePublishedSize) {
  std::int64_t elements = 0;
  std::int64_t first_layer = 0;
  const std::vector<MixtralTensor> tensors = mixtral_shapes(MixtralConfig{});
  for (const MixtralTensor& tensor : tensors) {
    elements += tensor.elements();
    if (tensor.unit == "model.layers.0") first_layer += tensor.elements();
  }
  EXPECT_EQ(tensors.size(), 995);
  EXPECT_EQ(first_layer, 1'451'270'144);
  EXPECT_EQ(elements, 46'702'792'704);
}

// Meta tensors have shapes and no memory.
TEST(Mixtral, HasTheTensorsDescribedInTheirOrder) {
  ModelOptions options;
  options.device = at::kMeta;
  options.uninitialised = true;
  options.dtype = at::kBFloat16;
  const auto model = find_model("mixtral_8x7b").make(options);
  const auto parameters = model->named_parameters();
  const std::vector<MixtralTensor> tensors = mixtral_shapes(MixtralConfig{});
  ASSERT_EQ(parameters.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(parameters[i].key(), tensors[i].name);
    EXPECT_EQ(parameters[i].value().sizes(), at::IntArrayRef(tensors[i].shape));
    EXPECT_EQ(parameters[i].value().scalar_type(), at::kBFloat16);
  }
}

TEST(Mixtral, StartsAsTransformersDoes) {
  const auto model = find_model("mixtral_tiny").make({});
  for (const auto& item : model->named_parameters()) {
    const at::Tensor& values = item.value();
    if (item.key().ends_with("norm.weight")) {
      EXPECT_TRUE(values.eq(1).all().item<bool>()) << item.key();
    } else if (values.numel() >= 4000) {
      EXPECT_NEAR(values.std().item<double>(), 0.02, 0.001) << item.key();
      EXPECT_NEAR(values.mean().item<double>(), 0, 0.001) << item.key();
    }
  }
}

TEST(Mixtral, WithoutInitialValuesTouchesNoParameter) {
  // In this mode torch fills fresh memory with NaN, so that whatever writes to it shows.
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  ModelOptions options;
  options.uninitialised = true;
  const MixtralForCausalLM model(tiny_mixtral(), options);
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  for (const auto& item : model.named_parameters()) {
    EXPECT_TRUE(item.value().isnan().all().item<bool>()) << item.key();
  }
}

TEST(Mixtral, TokensSeeOnlyThoseBeforeThem) {
  MixtralForCausalLM model(tiny_mixtral(), {});
  Batch batch = full_batch();
  const at::Tensor before = model.logits(batch);
  batch.input_ids = batch.input_ids.clone();
  batch.input_ids[0][5] = 77;
  const at::Tensor after = model.logits(batch);
  EXPECT_TRUE(at::allclose(after[0].slice(0, 0, 5), before[0].slice(0, 0, 5), 1e-5, 1e-6));
  EXPECT_FALSE(at::allclose(after[0][5], before[0][5], 1e-5, 1e-6));
  EXPECT_FALSE(at::allclose(after[0][7], before[0][7], 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(after[1], before[1], 1e-5, 1e-6));
}

TEST(Mixtral, PaddingChangesNothingAndIsNotPredicted) {
  MixtralForCausalLM model(tiny_mixtral(), {});
  const Batch batch = padded_batch();
  const at::Tensor together = model.logits(batch);
  double sum_of_losses = 0;
  for (const auto& [index, length] : std::vector<std::pair<int, int>>{{0, 6}, {1, 4}}) {
    const Batch alone = row(batch, index, length);
    EXPECT_TRUE(
        at::allclose(model.logits(alone)[0], together[index].slice(0, 0, length), 1e-5, 1e-6))
        << index;
    sum_of_losses += (length - 1) * model.loss(alone).item<double>();
  }
  EXPECT_NEAR(model.loss(batch).item<double>(), sum_of_losses / 8, 1e-5);
}

TEST(Mixtral, RefusesSequencesWithNothingToPredict) {
  MixtralForCausalLM model(tiny_mixtral(), {});
  Batch batch;
  batch.input_ids = at::ones({2, 1}, at::kLong);
  EXPECT_THAT(test::message_of<ConfigError>([&] { model.loss(batch); }),
              HasSubstr("sequence_length: got 1 token, expected at least 2"));
}

TEST(Mixtral, InBfloat16GivesAboutTheSameLoss) {
  ModelOptions options;
  const double exact =
      MixtralForCausalLM(tiny_mixtral(), options).loss(full_batch()).item<double>();
  options.dtype = at::kBFloat16;
  MixtralForCausalLM model(tiny_mixtral(), options);
  const at::Tensor loss = model.loss(full_batch());
  loss.backward();
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(loss.item<double>(), exact, 0.02 * exact);
  for (const auto& item : model.named_parameters()) {
    EXPECT_EQ(item.value().scalar_type(), at::kBFloat16) << item.key();
    EXPECT_EQ(item.value().grad().scalar_type(), at::kBFloat16) << item.key();
  }
}

TEST(Route, TakesTheLikeliestExperts) {
  const MixtralConfig config{.experts = 4};
  const at::Tensor logits = at::tensor({0.0, 3.0, 1.0, 2.0, 9.0, 0.0, 0.0, 9.0}).reshape({2, 4});
  const Routing routing = route(logits, config, /*balanced=*/false);
  EXPECT_EQ(routing.experts[0][0].item<int>(), 1);
  EXPECT_EQ(routing.experts[0][1].item<int>(), 3);
  // e^3 / (e^3 + e^2)
  EXPECT_NEAR(routing.weights[0][0].item<double>(), 0.7310586, 1e-6);
  EXPECT_NEAR(routing.weights[1][0].item<double>(), 0.5, 1e-6);
  EXPECT_NEAR(routing.weights[1][1].item<double>(), 0.5, 1e-6);
}

TEST(Route, BalancedGivesEveryExpertAsManyTokens) {
  const MixtralConfig config;
  at::Tensor logits = at::zeros({12, 8});
  logits.select(1, 3).fill_(5);  // whom a router would give all tokens
  const Routing routing = route(logits, config, /*balanced=*/true);
  for (std::int64_t expert = 0; expert < 8; ++expert) {
    EXPECT_EQ(routing.experts.eq(expert).sum().item<int>(), 3) << expert;
  }
  const at::Tensor sums = routing.weights.sum(-1);
  EXPECT_TRUE(at::allclose(sums, at::ones_like(sums)));
  // Token 1 has experts 2 and 3: the softmax still weighs them.
  EXPECT_NEAR(routing.weights[1][1].item<double>(), 0.9933071, 1e-6);
}

// How many experts of the first layer learn from a batch whose router likes only the same two.
int experts_with_gradient(bool balanced) {
  ModelOptions options;
  options.balanced_routing = balanced;
  MixtralForCausalLM model(tiny_mixtral(), options);
  const auto parameters = model.named_parameters();
  {
    const at::NoGradGuard no_grad;
    at::Tensor router = parameters["model.layers.0.block_sparse_moe.gate.weight"];
    router.zero_();  // all are as likely: the same two win for every token
  }
  model.loss(full_batch()).backward();
  int count = 0;
  for (int i = 0; i < 8; ++i) {
    const at::Tensor gradient =
        parameters[fmt::format("model.layers.0.block_sparse_moe.experts.{}.w2.weight", i)].grad();
    EXPECT_TRUE(gradient.defined()) << i;
    if (gradient.ne(0).any().item<bool>()) ++count;
  }
  return count;
}

TEST(Mixtral, ExpertsWithoutTokensHaveGradientsOfZero) {
  EXPECT_EQ(experts_with_gradient(false), 2);
}

TEST(Mixtral, BalancedRoutingReachesEveryExpert) {
  EXPECT_EQ(experts_with_gradient(true), 8);
}

// As torch's autograd reaches them where w1, w3 and w2 of each expert in turn run forward.
TEST(Mixtral, ExpertsGradientsAreReadyLastFirst) {
  MixtralForCausalLM model(tiny_mixtral(), {});
  std::vector<std::string> ready;
  std::vector<std::string> expected;
  for (int i = 7; i >= 0; --i) {
    for (const char* part : {"w2", "w3", "w1"}) expected.push_back(fmt::format("{}.{}", i, part));
  }
  const std::string prefix = "model.layers.1.block_sparse_moe.experts.";
  for (const auto& item : model.named_parameters()) {
    if (!item.key().starts_with(prefix)) continue;
    const std::string name = item.key().substr(prefix.size(), 4);
    item.value().register_hook([&ready, name](const at::Tensor&) { ready.push_back(name); });
  }
  model.loss(full_batch()).backward();
  EXPECT_THAT(ready, ElementsAreArray(expected));
}

}  // namespace
}  // namespace gradsync::models
