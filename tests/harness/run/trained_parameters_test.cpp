// Values that are infinite or NaN, in parameters after a block and in losses on the way.
#include "harness/run/trained_parameters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "harness/base/errors.h"
#include "harness/sync/backward.h"

namespace gradsync::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Parameters, and nothing that trains them.
class Parameters final : public sync::Wrapper {
 public:
  explicit Parameters(std::vector<at::Tensor> values) : values_(std::move(values)) {}

  const std::vector<at::Tensor>& parameters() const override { return values_; }
  std::vector<std::string> parameter_names() const override {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < values_.size(); ++i) names.push_back("unit " + std::to_string(i));
    return names;
  }
  std::vector<sync::Collectives> declared(const std::vector<bool>&) const override { return {}; }
  std::vector<std::int64_t> reduction_bytes() const override { return {}; }
  at::Tensor forward(const models::Batch&) override { throw InternalError("not to be run"); }
  models::Model& module() override { throw InternalError("there is none"); }

 private:
  std::vector<at::Tensor> values_;
};

// Returns the report on three parameters; the middle one has `value` as its last element.
std::string said_of(float value, float last = 0) {
  return run::non_finite_values(
      Parameters({at::ones({3}), at::tensor({1.0F, -2.0F, value}), at::tensor({last})}),
      std::nullopt, {1}, {2});
}

TEST(NonFinite, NumbersAreNotMentioned) {
  EXPECT_EQ(said_of(std::numeric_limits<float>::max()), "");
  EXPECT_EQ(run::non_finite_values(Parameters({at::ones({0})}), std::nullopt, {}, {}), "");
}

TEST(NonFinite, WhatIsNoNumberIsNamed) {
  for (const float value : {kInfinity, -kInfinity, kNan}) {
    EXPECT_EQ(said_of(value), "non-finite gradients: after the block unit 1 is not finite");
  }
  EXPECT_EQ(said_of(kNan, kInfinity),
            "non-finite gradients: after the block unit 1 and 1 more are not finite");
}

TEST(NonFinite, TheFirstLossOfAllIsNamed) {
  sync::LossWatch watch;
  for (const float loss : {1.0F, 2.0F, kInfinity, kNan}) watch.note(at::tensor(loss));
  EXPECT_EQ(watch.first_non_finite(), 2);
  EXPECT_EQ(run::non_finite_values(Parameters({at::tensor({kNan})}), watch.first_non_finite(), {1},
                                   {2, 2}),
            "non-finite gradients: after the block unit 0 is not finite; the first loss that was "
            "not is that of step 1, micro-batch 2");
  watch.clear();
  watch.note(at::tensor(1.0F));
  EXPECT_FALSE(watch.first_non_finite().has_value());
}

}  // namespace
}  // namespace gradsync::test
