// Selective checkpointing: what is kept is not computed again, and gradients are what they were.
#include "models/selective.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <functional>
#include <optional>

#include "models/recompute.h"

namespace gradsync::models {
namespace {

using testing::HasSubstr;

at::Tensor leaf(at::IntArrayRef sizes, double first) {
  const std::int64_t count = c10::multiply_integers(sizes);
  return (at::arange(count, at::kFloat).view(sizes) / count - first).requires_grad_();
}

using Forward = std::function<at::Tensor(const at::Tensor&)>;

// Spoils the second run: operations that use `weight` again see other values, which autograd does
// not know.
void change_unseen(const at::Tensor& weight) {
  auto* values = static_cast<float*>(weight.data_ptr());
  for (std::int64_t i = 0; i < weight.numel(); ++i) values[i] += 1;
}

struct Product {
  at::Tensor x = leaf({2, 3}, 0.5);
  at::Tensor weight = leaf({3, 4}, 0.25);

  // The gradient of `weight`, for which tanh's output is made again from a product.
  at::Tensor gradient(KeptOutputs kept, bool spoilt) {
    const Forward forward = [this](const at::Tensor& input) {
      return at::tanh(at::mm(input, weight));
    };
    const at::Tensor y = run_checkpointed(x, {forward, {}, kept});
    if (spoilt) change_unseen(weight);
    y.sum().backward();
    return weight.grad();
  }
};

TEST(Selective, AKeptProductIsNotComputedAgain) {
  const at::Tensor expected = Product().gradient(KeptOutputs::None, false);
  EXPECT_TRUE(Product().gradient(KeptOutputs::Matmul, false).equal(expected));
  EXPECT_TRUE(Product().gradient(KeptOutputs::Matmul, true).equal(expected));
  EXPECT_FALSE(Product().gradient(KeptOutputs::None, true).equal(expected)) << "it would show";
  EXPECT_FALSE(Product().gradient(KeptOutputs::Attention, true).equal(expected)) << "no attention";
}

// tanh of each of two products: of scores, and of these with values.
at::Tensor spelled_out(const at::Tensor& x, const at::Tensor& keys, const at::Tensor& values) {
  const AttentionScope scope;
  const at::Tensor weights = at::tanh(at::bmm(x, keys));
  return at::tanh(at::bmm(weights, values));
}

at::Tensor gradient_of_values(KeptOutputs kept, bool spoils_keys, bool spoils_values) {
  const at::Tensor x = leaf({1, 2, 3}, 0.5);
  const at::Tensor keys = leaf({1, 3, 2}, 0.25);
  const at::Tensor values = leaf({1, 2, 2}, 0.75);
  const Forward forward = [&](const at::Tensor& input) { return spelled_out(input, keys, values); };
  const at::Tensor y = run_checkpointed(x, {forward, {}, kept});
  if (spoils_keys) change_unseen(keys);
  if (spoils_values) change_unseen(values);
  y.sum().backward();
  return values.grad();
}

TEST(Selective, OfAttentionThatIsSpelledOutTheSecondProductIsKept) {
  using enum KeptOutputs;
  const at::Tensor expected = gradient_of_values(None, false, false);
  EXPECT_TRUE(gradient_of_values(Attention, false, true).equal(expected));
  EXPECT_FALSE(gradient_of_values(Attention, true, false).equal(expected)) << "of scores";
  EXPECT_TRUE(gradient_of_values(Matmul, true, true).equal(expected));
}

TEST(Selective, OfFusedAttentionAllOutputsAreKept) {
  const auto gradient = [](KeptOutputs kept, bool spoilt) {
    const at::Tensor x = leaf({1, 2, 4, 8}, 0.5);
    const at::Tensor values = leaf({1, 2, 4, 8}, 0.25);
    const Forward forward = [&](const at::Tensor& input) {
      return at::tanh(at::scaled_dot_product_attention(input, input, values));
    };
    const at::Tensor y = run_checkpointed(x, {forward, {}, kept});
    if (spoilt) change_unseen(values);
    y.sum().backward();
    return values.grad();
  };
  const at::Tensor expected = gradient(KeptOutputs::None, false);
  for (const KeptOutputs kept : {KeptOutputs::Attention, KeptOutputs::Matmul}) {
    EXPECT_TRUE(gradient(kept, true).equal(expected));
  }
  EXPECT_FALSE(gradient(KeptOutputs::None, true).equal(expected)) << "it would show";
}

TEST(Selective, WhatIsKeptGoesAsItIsTakenAndTheRestWithTheSecondRun) {
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> kept;
  const at::Tensor x = leaf({2, 3}, 0.5);
  const at::Tensor weight = leaf({3, 4}, 0.25);
  at::Tensor sum;
  {
    const at::Tensor y = run_checkpointed(x, {[&](const at::Tensor& input) {
                                                const at::Tensor made = at::mm(input, weight);
                                                kept = made.storage().getWeakStorageImpl();
                                                return made + 1;
                                              },
                                              {},
                                              KeptOutputs::Matmul});
    sum = y.sum();
  }
  EXPECT_FALSE(kept->expired());
  sum.backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(kept->expired()) << "it was not needed: backward reads inputs alone";
}

TEST(Selective, AKeptOutputThatIsChangedInPlaceIsRefused) {
  const at::Tensor x = leaf({2, 3}, 0.5);
  const at::Tensor weight = leaf({3, 4}, 0.25);
  const Forward forward = [&](const at::Tensor& input) {
    return at::tanh(at::mm(input, weight).add_(1));
  };
  const at::Tensor y = run_checkpointed(x, {forward, {}, KeptOutputs::Matmul});
  try {
    y.sum().backward();
    FAIL() << "expected a ConfigError";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("changed an output in place"));
  }
}

TEST(Selective, OutsideOfAStretchNothingIsKept) {
  EXPECT_FALSE(keeps_products());
  const at::Tensor x = leaf({2, 3}, 0.5);
  run_checkpointed(x, {[](const at::Tensor& input) {
                         EXPECT_TRUE(keeps_products());
                         return input * 2;
                       },
                       {},
                       KeptOutputs::Matmul});
  EXPECT_FALSE(keeps_products());
}

}  // namespace
}  // namespace gradsync::models
