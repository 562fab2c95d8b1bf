// Covers: pace.cpp.
#include "models/paced.h"
#include "models/autograd_node.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include "harness/base/build_info.h"
#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Three layers: a (2 parameters), b (3), c (1, no time of its own).
Profile small_profile() {
  Profile profile;
  profile.name = "small";
  profile.layers = {
      {"a", 0.010, 0.030, {{"m.a.weight", {4, 3}}, {"m.a.bias", {4}}}},
      {"b", 0.020, 0.050, {{"m.b.weight", {5}}, {"m.b.bias", {5}}, {"m.b.gain", {5}}}},
      {"c", 0, 0, {{"head.weight", {7}}}}};
  profile.optimizer_s = 0.25;
  profile.buffers = {{"m.ids", {1, 100}}};
  return profile;
}

// One arrival of a gradient: which parameter, and how long after the start of backward.
struct Arrival {
  std::size_t parameter;
  std::int64_t after_ms;
  bool operator==(const Arrival&) const = default;
};
void PrintTo(const Arrival& arrival, std::ostream* out) {
  *out << arrival.parameter << " at " << arrival.after_ms << " ms";
}

// Hooks every parameter where DDP does: after its gradient was accumulated.
class Arrivals {
 public:
  Arrivals(const PacedModel& model, const FakeClock& clock) : clock_(clock) {
    const auto parameters = model.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto node = torch::autograd::impl::grad_accumulator(parameters[i]);
      node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [this, i](const auto& outputs, const auto&) {
            list.push_back({i, (clock_.now_ns() - start_ns) / 1'000'000});
            return outputs;
          }));
      accumulators_.push_back(std::move(node));
    }
  }
  std::int64_t start_ns = 0;
  std::vector<Arrival> list;

 private:
  const FakeClock& clock_;
  std::vector<NodePtr> accumulators_;
};

TEST(Paced, ForwardAndBackwardTakeTheProfilesTime) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  const std::int64_t start = clock.now_ns();
  const at::Tensor loss = model.loss({});
  EXPECT_EQ(clock.now_ns() - start, 30'000'000);
  loss.backward();
  EXPECT_EQ(clock.now_ns() - start, 110'000'000);
  EXPECT_EQ(model.paced_optimizer_s(), 0.25);
}

// The reported layers that run again: which, and how long after the start of backward.
class Reruns {
 public:
  Reruns(PacedModel& model, int every, const FakeClock& clock) {
    model.set_recomputation({{every}, [this, &clock](std::size_t layer, bool begins) {
                               list.push_back(fmt::format("{} {} at {} ms", "abc"[layer],
                                                          begins ? "begins" : "ends",
                                                          (clock.now_ns() - start_ns) / 1'000'000));
                             }});
  }
  std::int64_t start_ns = 0;
  std::vector<std::string> list;
};

// Forward of b takes 20 ms, of a 10.
TEST(Paced, ACheckpointedLayerTakesItsForwardAgainBeforeItsBackward) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  Reruns reruns(model, 1, clock);
  Arrivals arrivals(model, clock);
  const at::Tensor loss = model.loss({});
  EXPECT_THAT(reruns.list, ElementsAre());
  arrivals.start_ns = reruns.start_ns = clock.now_ns();
  loss.backward();
  EXPECT_THAT(reruns.list, ElementsAre("c begins at 0 ms", "c ends at 0 ms", "b begins at 0 ms",
                                       "b ends at 20 ms", "a begins at 70 ms", "a ends at 80 ms"));
  EXPECT_THAT(arrivals.list, ElementsAre(Arrival{5, 0}, Arrival{4, 70}, Arrival{3, 70},
                                         Arrival{2, 70}, Arrival{1, 110}, Arrival{0, 110}));
}

TEST(Paced, OnlyTheLayersThatAreCheckpointedRunAgain) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  Reruns reruns(model, 2, clock);
  const at::Tensor loss = model.loss({});
  reruns.start_ns = clock.now_ns();
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_EQ(clock.now_ns() - reruns.start_ns, 100'000'000);
  EXPECT_THAT(reruns.list, ElementsAre("b begins at 0 ms", "b ends at 20 ms"));
  const std::int64_t start = clock.now_ns();
  loss.backward();
  EXPECT_NEAR(static_cast<double>(clock.now_ns() - start), 100e6, 0.5e6) << "the graph was kept";
}

// Leaves out all of three layers but those from `first` to before `end`, as a stage does.
class OnlyLayers : public UnitHooks {
 public:
  OnlyLayers(std::size_t first, std::size_t end) : first_(first), end_(end) {}
  bool runs(std::size_t unit) const override { return unit >= first_ && unit < end_; }
  bool runs_begin() const override { return first_ == 0; }
  bool runs_end() const override { return end_ == 3; }
  at::Tensor before_forward(std::size_t, at::Tensor input) override {
    return input.defined() ? input : at::zeros({});
  }

 private:
  std::size_t first_;
  std::size_t end_;
};

// Layer a takes 10 and 30 ms, b 20 and 50, c none: whatever runs elsewhere takes no time here.
TEST(Paced, LayersThatAreLeftOutTakeNoTime) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  const auto took_ms = [&](OnlyLayers layers) {
    model.set_unit_hooks(&layers);
    const std::int64_t start = clock.now_ns();
    const at::Tensor loss = model.loss({});
    const std::int64_t forward_ms = (clock.now_ns() - start) / 1'000'000;
    loss.backward();
    model.set_unit_hooks(nullptr);
    return std::pair(forward_ms, (clock.now_ns() - start) / 1'000'000 - forward_ms);
  };
  EXPECT_EQ(took_ms({0, 1}), std::pair(std::int64_t{10}, std::int64_t{30}));
  EXPECT_FALSE(model.parameters()[2].grad().defined());
  EXPECT_EQ(took_ms({1, 3}), std::pair(std::int64_t{20}, std::int64_t{50}));
  const double once = PacedModel::gradient_value(0);
  EXPECT_EQ(model.parameters()[0].grad()[0][0].item<double>(), once);
  EXPECT_EQ(model.parameters()[2].grad()[0].item<double>(), PacedModel::gradient_value(2));
  model.set_recomputation({{1}, {}});
  EXPECT_EQ(took_ms({0, 1}), std::pair(std::int64_t{10}, std::int64_t{40}));
  EXPECT_EQ(took_ms({1, 3}), std::pair(std::int64_t{20}, std::int64_t{70}));
}

TEST(Paced, OnlyAHostsLeadHidesBetweenForwardAndBackward) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  const auto took_ms = [&](std::int64_t pause_ns) {
    const std::int64_t start = clock.now_ns();
    const at::Tensor loss = model.loss({});
    clock.advance_ns(pause_ns);
    loss.backward();
    return static_cast<double>(clock.now_ns() - start) * 1e-6;
  };
  EXPECT_EQ(took_ms(500'000), 110);
  EXPECT_EQ(took_ms(5'000'000), 114.5);
}

TEST(Paced, GradientsArriveWithTheirLayerLastRegisteredFirst) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  Arrivals arrivals(model, clock);
  const at::Tensor loss = model.loss({});
  arrivals.start_ns = clock.now_ns();
  loss.backward();
  EXPECT_THAT(arrivals.list, ElementsAre(Arrival{5, 0}, Arrival{4, 50}, Arrival{3, 50},
                                         Arrival{2, 50}, Arrival{1, 80}, Arrival{0, 80}));
}

TEST(Paced, WorkOfHooksHidesInTheWaitsThatFollow) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  const at::Tensor loss = model.loss({});
  const std::int64_t start = clock.now_ns();
  // 9 ms per gradient: three of layer b fit into the 30 ms of layer a; two of layer a come after
  // it.
  model.named_parameters()["m.b.gain"].register_hook(
      [&](const at::Tensor&) { clock.advance_ns(27'000'000); });
  loss.backward();
  EXPECT_EQ(clock.now_ns() - start, 80'000'000);
}

TEST(Paced, WorkThatOutlastsAWaitShows) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  const at::Tensor loss = model.loss({});
  const std::int64_t start = clock.now_ns();
  model.named_parameters()["m.b.gain"].register_hook(
      [&](const at::Tensor&) { clock.advance_ns(40'000'000); });
  loss.backward();
  EXPECT_EQ(clock.now_ns() - start, 90'000'000);
}

TEST(Paced, SeveralForwardsEachHaveTheirOwnBackward) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  const at::Tensor first = model.loss({});
  const at::Tensor second = model.loss({});
  const std::int64_t start = clock.now_ns();
  second.backward();
  EXPECT_EQ(clock.now_ns() - start, 80'000'000);
  first.backward();
  EXPECT_NEAR(static_cast<double>(clock.now_ns() - start), 160e6, 0.5e6);
}

at::Tensor values_of(const at::Tensor& parameter, std::size_t index, std::uint64_t batch = 0) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < parameter.numel(); ++i) {
    values.push_back(PacedModel::gradient_value(index, i, batch));
  }
  return at::tensor(values, at::kFloat).view(parameter.sizes());
}

TEST(Paced, GradientsAreKnownScaleWithTheLossAndAccumulate) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  (model.loss({}) / 4).backward();
  (model.loss({}) / 2).backward();
  const auto parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor expected = 0.75 * values_of(parameters[i], i);
    ASSERT_TRUE(expected.gt(0).all().item<bool>());
    EXPECT_TRUE(parameters[i].grad().eq(expected).all().item<bool>()) << i;
    EXPECT_TRUE(parameters[i].grad().is_contiguous()) << i;
  }
}

// What tells a micro-batch's share in a sum: another direction, not another length.
TEST(Paced, GradientsDifferByParameterAndMicroBatch) {
  const at::Tensor like = at::zeros({64});
  const auto cosine = [](const at::Tensor& a, const at::Tensor& b) {
    return (a.dot(b) / (a.norm() * b.norm())).item<double>();
  };
  for (std::uint64_t batch = 1; batch < 8; ++batch) {
    EXPECT_LT(cosine(values_of(like, 0), values_of(like, 0, batch)), 0.95) << batch;
    EXPECT_LT(cosine(values_of(like, 0, batch), values_of(like, 1, batch)), 0.95) << batch;
  }
}

TEST(Paced, AMicroBatchGivesItsOwnGradientsAlsoToLargeParameters) {
  Profile profile = small_profile();
  profile.layers[2].parameters[0].shape = {1030, 3};  // three rows of the table and some more
  FakeClock clock;
  PacedModel model(profile, 1, host_pace(clock), at::kCPU);
  Batch batch;
  batch.number = 5;
  model.loss(batch).backward();
  const auto parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(parameters[i].grad().eq(values_of(parameters[i], i, 5)).all().item<bool>()) << i;
  }
}

TEST(Paced, AGraphKeptMayRunBackwardAgain) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  const at::Tensor loss = model.loss({});
  loss.backward({}, /*retain_graph=*/true);
  const std::int64_t start = clock.now_ns();
  loss.backward();
  EXPECT_NEAR(static_cast<double>(clock.now_ns() - start), 80e6, 0.5e6);
  const at::Tensor parameter = model.parameters()[0];
  EXPECT_TRUE(parameter.grad().eq(2 * values_of(parameter, 0)).all().item<bool>());
}

TEST(Paced, WithoutGradientsOnlyForwardTakesTime) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  const at::NoGradGuard no_grad;
  const std::int64_t start = clock.now_ns();
  EXPECT_FALSE(model.loss({}).requires_grad());
  EXPECT_EQ(clock.now_ns() - start, 30'000'000);
}

TEST(Paced, ALayerWithoutParametersTakesItsTimeToo) {
  FakeClock clock;
  Profile profile = small_profile();
  profile.layers.insert(profile.layers.begin(), ProfileLayer{"first", 0.001, 0.007, {}});
  PacedModel model(profile, 1, host_pace(clock), at::kCPU);
  const at::Tensor loss = model.loss({});
  const std::int64_t start = clock.now_ns();
  loss.backward();
  EXPECT_EQ(clock.now_ns() - start, 87'000'000);
}

TEST(Paced, ScaleDividesElementsRoundingHalfUpAndKeepsAtLeastOne) {
  FakeClock clock;
  PacedModel model(small_profile(), 8, host_pace(clock), at::kCPU);
  std::vector<std::int64_t> elements;
  for (const at::Tensor& parameter : model.parameters()) {
    EXPECT_EQ(parameter.dim(), 1);
    elements.push_back(parameter.numel());
  }
  EXPECT_THAT(elements, ElementsAre(2, 1, 1, 1, 1, 1));  // of 12, 4, 5, 5, 5, 7: 1.5 rounds up
  EXPECT_EQ(model.buffers()[0].sizes(), at::IntArrayRef({13}));  // of 100
}

TEST(Paced, KeepsNamesAndShapes) {
  FakeClock clock;
  PacedModel model(small_profile(), 1, host_pace(clock), at::kCPU);
  EXPECT_THAT(model.named_parameters().keys(), ElementsAre("m.a.weight", "m.a.bias", "m.b.weight",
                                                           "m.b.bias", "m.b.gain", "head.weight"));
  EXPECT_EQ(model.parameters()[0].sizes(), at::IntArrayRef({4, 3}));
  EXPECT_THAT(model.named_buffers().keys(), ElementsAre("m.ids"));
}

TEST(Paced, RefusesAnOrderThatModulesCannotHave) {
  FakeClock clock;
  Profile profile = small_profile();
  std::swap(profile.layers[1], profile.layers[2]);  // head between two of m's
  EXPECT_THAT(
      test::message_of<ConfigError>([&] { PacedModel(profile, 1, host_pace(clock), at::kCPU); }),
      HasSubstr("profile small: field 'layers': got head.weight before m.b.weight"));
}

class PacedBertBase : public testing::TestWithParam<int> {};

TEST_P(PacedBertBase, ScaledBytesAreTheBytesDividedByTheScale) {
  FakeClock clock;
  const Profile profile =
      read_profile(build_info().source_dir + "/models/profiles/paced_bert_base_t4.json");
  const PacedModel model(profile, GetParam(), host_pace(clock), at::kCPU);
  double elements = 0;
  for (const at::Tensor& parameter : model.parameters()) {
    elements += static_cast<double>(parameter.numel());
  }
  constexpr double kUnscaled = 108'311'810;
  EXPECT_NEAR(elements * GetParam() / kUnscaled, 1, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Scales, PacedBertBase, testing::Values(1, 10, 25, 50, 100));

}  // namespace
}  // namespace gradsync::models
