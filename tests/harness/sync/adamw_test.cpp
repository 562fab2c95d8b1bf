// Both forms of the optimizer step alike.
#include "harness/sync/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace gradsync::test {
namespace {

constexpr sync::AdamWOptions kOptions{
    .lr = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.2};

std::vector<at::Tensor> two_parameters() {
  std::vector<at::Tensor> parameters{at::full({2}, 2.0), at::full({2}, 3.0)};
  for (at::Tensor& parameter : parameters) parameter.set_requires_grad(true);
  return parameters;
}

// Three steps with other gradients each; the second parameter has none in the first.
template <typename AdamW>
std::vector<at::Tensor> after_three_steps() {
  auto parameters = two_parameters();
  AdamW optimizer(parameters, kOptions);
  for (int step = 0; step < 3; ++step) {
    if (step == 2) optimizer.set_lr(optimizer.lr() / 4);
    for (std::size_t i = step == 0 ? 1 : 0; i < parameters.size(); ++i) {
      parameters[i].mutable_grad() = at::full({2}, 0.5 * step - 0.25 * static_cast<double>(i));
    }
    optimizer.step();
    optimizer.zero_grad();
    for (const at::Tensor& parameter : parameters) EXPECT_FALSE(parameter.grad().defined());
  }
  return parameters;
}

// One step by hand: the moments, corrected for their start, are the gradient and its square.
template <typename AdamW>
void expect_first_step_by_hand() {
  auto parameters = two_parameters();
  AdamW optimizer(parameters, kOptions);
  parameters[0].mutable_grad() = at::full({2}, 0.5);
  optimizer.step();
  constexpr double kDecayed = 2.0 * (1 - 0.1 * 0.2);
  EXPECT_NEAR(parameters[0][1].item<double>(), kDecayed - 0.1 * 0.5 / (0.5 + 1e-3), 1e-6);
  EXPECT_EQ(parameters[1][0].item<double>(), 3.0) << "no gradient, no step";
}

TEST(AdamW, TheFirstStepIsAsByHand) {
  expect_first_step_by_hand<sync::FusedAdamW>();
  expect_first_step_by_hand<sync::PerParameterAdamW>();
}

// A hundred steps of an eighth of the last bit of a 1 each.
TEST(AdamW, MasterWeightsKeepWhatBfloat16WouldRoundAway) {
  constexpr int kSteps = 100;
  constexpr sync::AdamWOptions kSmallSteps{.lr = 0x1p-10, .weight_decay = 0};
  const auto after_small_steps = [&](auto make) {
    std::vector<at::Tensor> parameters{at::ones({2}, at::kBFloat16).requires_grad_()};
    auto optimizer = make(parameters);
    for (int step = 0; step < kSteps; ++step) {
      parameters[0].mutable_grad() = at::ones({2}, at::kBFloat16);
      optimizer.step();
      optimizer.zero_grad();
    }
    return parameters[0][0].item<double>();
  };
  using Parameters = std::vector<at::Tensor>;
  EXPECT_EQ(after_small_steps([&](const Parameters& parameters) {
              return sync::FusedAdamW(parameters, kSmallSteps);
            }),
            1);
  EXPECT_NEAR(after_small_steps([&](const Parameters& parameters) {
                return sync::MasterWeightAdamW(parameters, kSmallSteps);
              }),
              1 - kSteps * 0x1p-10, 0x1p-8);
}

TEST(AdamW, MasterWeightsAreCopies) {
  std::vector<at::Tensor> parameters = two_parameters();
  sync::MasterWeightAdamW optimizer(parameters, kOptions);
  parameters[0].mutable_grad() = at::zeros({2});
  parameters[0].detach().zero_();
  optimizer.step();
  EXPECT_GT(parameters[0][0].item<double>(), 0) << "the master's, which was no zero";
}

TEST(AdamW, WithMasterWeightsItStepsAsInFloat32) {
  const auto fused = after_three_steps<sync::FusedAdamW>();
  const auto masters = after_three_steps<sync::MasterWeightAdamW>();
  for (std::size_t i = 0; i < fused.size(); ++i) EXPECT_TRUE(fused[i].equal(masters[i]));
}

TEST(AdamW, ParameterByParameterItStepsAsFused) {
  const auto fused = after_three_steps<sync::FusedAdamW>();
  const auto one_by_one = after_three_steps<sync::PerParameterAdamW>();
  for (std::size_t i = 0; i < fused.size(); ++i) {
    EXPECT_TRUE(at::allclose(fused[i], one_by_one[i], 1e-6, 0)) << fused[i] << one_by_one[i];
  }
}

}  // namespace
}  // namespace gradsync::test
