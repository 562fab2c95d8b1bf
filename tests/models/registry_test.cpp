// Covers: suite.cpp.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <map>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/named.h"
#include "models/data.h"
#include "models/model.h"
#include "models/pace.h"
#include "models/suite.h"
#include "tests/models/temporary_folder.h"
#include "tests/paths.h"

namespace gradsync::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class EveryModel : public testing::TestWithParam<std::string> {
 protected:
  ModelOptions options() const {
    ModelOptions result;
    result.pace = host_pace(clock_);
    return result;
  }
  std::shared_ptr<Model> make() const { return find_model(GetParam()).make(options()); }

  DataLoader batches(const Model& model, int count) const {
    DataOptions data;
    data.micro_batch_size = 2;
    data.sequence_length = 8;
    if (model.vocabulary_size() > 0) data.vocabulary_size = model.vocabulary_size();
    return {data, count};
  }

  FakeClock clock_;
};

TEST_P(EveryModel, GivesEveryParameterAGradient) {
  ModelOptions options = this->options();
  options.balanced_routing = GetParam().starts_with("mixtral");  // every expert has tokens
  const auto model = find_model(GetParam()).make(options);
  constexpr int kBatches = 4;  // a model with branches takes each of them in one of these
  DataLoader data = batches(*model, kBatches);
  for (int i = 0; i < kBatches; ++i) {
    const at::Tensor loss = model->loss(data.next());
    ASSERT_EQ(loss.dim(), 0);
    EXPECT_TRUE(at::isfinite(loss).item<bool>());
    loss.backward();
  }
  for (const auto& parameter : model->named_parameters()) {
    const at::Tensor& gradient = parameter.value().grad();
    ASSERT_TRUE(gradient.defined()) << parameter.key();
    EXPECT_EQ(gradient.sizes(), parameter.value().sizes()) << parameter.key();
    EXPECT_TRUE(gradient.is_contiguous()) << parameter.key();
    EXPECT_TRUE(at::isfinite(gradient).all().item<bool>()) << parameter.key();
    // A key's bias shifts all scores of a query equally, so its gradient is 0 up to rounding.
    if (!parameter.key().ends_with("key.bias")) {
      EXPECT_TRUE(gradient.ne(0).any().item<bool>()) << parameter.key();
    }
  }
}

TEST_P(EveryModel, SaysHowItComputes) {
  EXPECT_EQ(make()->compute(), find_model(GetParam()).compute);
}

TEST_P(EveryModel, StartsTheSameWhateverTorchsGeneratorDid) {
  const auto first = make();
  at::rand({100});
  const auto second = make();
  const auto theirs = second->named_parameters();
  for (const auto& parameter : first->named_parameters()) {
    EXPECT_TRUE(parameter.value().equal(theirs[parameter.key()])) << parameter.key();
  }
}

TEST_P(EveryModel, TakesAScaleOnlyWhenPaced) {
  ModelOptions scaled = options();
  scaled.scale = 50;
  const auto make_scaled = [&] { find_model(GetParam()).make(scaled); };
  if (find_model(GetParam()).compute == Compute::Paced) {
    EXPECT_NO_THROW(make_scaled());
  } else {
    EXPECT_THAT(test::message_of<ConfigError>(make_scaled), HasSubstr("scale: got 50"));
  }
}

TEST_P(EveryModel, IsStoredInBfloat16WhereItSaysSo) {
  ModelOptions stored = options();
  stored.dtype = at::kBFloat16;
  const auto make_stored = [&] { return find_model(GetParam()).make(stored); };
  if (!find_model(GetParam()).has_bfloat16) {
    EXPECT_THAT(test::message_of<ConfigError>(make_stored), StartsWith("dtype: got BFloat16"));
    return;
  }
  const bool draws_in_its_type = GetParam().starts_with("mixtral");
  const auto rounded = make_stored()->named_parameters();
  for (const auto& parameter : make()->named_parameters()) {
    const at::Tensor& stored_in_fewer_bits = rounded[parameter.key()];
    EXPECT_EQ(stored_in_fewer_bits.scalar_type(), at::kBFloat16) << parameter.key();
    EXPECT_TRUE(stored_in_fewer_bits.requires_grad()) << parameter.key();
    if (draws_in_its_type) continue;
    EXPECT_TRUE(stored_in_fewer_bits.equal(parameter.value().to(at::kBFloat16))) << parameter.key();
  }
}

TEST_P(EveryModel, TakesMixtralsOptionsOnlyWhenItIsOne) {
  const bool is_mixtral = GetParam().starts_with("mixtral");
  const auto refusal_of = [&](const auto& change) {
    ModelOptions changed = options();
    change(changed);
    return test::message_of<ConfigError>([&] { find_model(GetParam()).make(changed); });
  };
  const std::map<std::string, std::string> refusals{
      {"uninitialised: got true", refusal_of([](auto& o) { o.uninitialised = true; })},
      {"balanced_routing: got true", refusal_of([](auto& o) { o.balanced_routing = true; })},
      {"without_memory: got true", refusal_of([](auto& o) { o.without_memory = true; })}};
  EXPECT_EQ(find_model(GetParam()).has_mixtrals_options, is_mixtral);
  for (const auto& [beginning, message] : refusals) {
    if (is_mixtral) {
      EXPECT_EQ(message, "") << beginning;
    } else {
      EXPECT_THAT(message, StartsWith(beginning));
      EXPECT_THAT(message, HasSubstr(GetParam()));
    }
  }
  EXPECT_THAT(refusal_of([](auto& o) { o.dtype = at::kLong; }), StartsWith("dtype: got Long"));
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const ModelEntry& entry : registry()) result.push_back(entry.name);
  return result;
}

// All but the one that takes 187 GB.
std::vector<std::string> names_of_small_models() {
  std::vector<std::string> result = names();
  std::erase(result, "mixtral_8x7b");
  return result;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryModel, testing::ValuesIn(names_of_small_models()),
                         [](const auto& info) { return info.param; });

TEST(Registry, AnotherSeedGivesOtherParameters) {
  ModelOptions options;
  const auto first = find_model("mlp").make(options);
  options.seed += 1;
  const auto second = find_model("mlp").make(options);
  EXPECT_FALSE(first->parameters()[0].equal(second->parameters()[0]));
}

TEST(Registry, NamesTheModelsThereAre) {
  const std::string message = test::message_of<ConfigError>([] { find_model("fruit"); });
  EXPECT_THAT(message, HasSubstr("fruit"));
  for (const std::string& name : names()) EXPECT_THAT(message, HasSubstr(name));
  EXPECT_THAT(message, HasSubstr("or a profile's path ending in .json"));
}

ModelEntry named(const std::string& name) {
  ModelEntry entry;
  entry.name = name;
  entry.make = [](const ModelOptions&) { return std::shared_ptr<Model>(); };
  return entry;
}

TEST(Registry, LinkedModelsComeAfterTheOthers) {
  const auto entries = with_registered({named("a"), named("b")}, {named("d"), named("c")});
  std::vector<std::string> joined;
  for (const ModelEntry& entry : entries) joined.push_back(entry.name);
  EXPECT_THAT(joined, ElementsAre("a", "b", "d", "c"));
}

TEST(Registry, LinkedModelsNeedANameOfTheirOwn) {
  const auto refusal = [](const std::vector<ModelEntry>& registered) {
    return test::message_of<ConfigError>([&] {
      with_registered({named("a"), named("b")}, registered);
    });
  };
  EXPECT_THAT(refusal({named("b")}), HasSubstr("got the name 'b'"));
  EXPECT_THAT(refusal({named("c"), named("c")}), HasSubstr("got the name 'c'"));
  EXPECT_THAT(refusal({named("")}), HasSubstr("got the name ''"));
  EXPECT_THAT(refusal({named("c.json")}), HasSubstr("got the name 'c.json'"));
}

TEST(Registry, PacedModelsHaveNoWeightsToLoad) {
  FakeClock clock;
  ModelOptions options;
  options.pace = host_pace(clock);
  options.weights = "model.safetensors";
  EXPECT_THAT(
      test::message_of<ConfigError>([&] { find_model("paced_bert_base_t4").make(options); }),
      HasSubstr("paced_bert_base_t4"));
}

TEST(Registry, ANameThatEndsInJsonIsAProfilesPath) {
  const std::string file = test::path_of("source") + "/models/profiles/paced_bert_base_t4.json";
  FakeClock clock;
  ModelOptions options;
  options.pace = host_pace(clock);
  options.scale = 1000;
  const ModelEntry entry = find_model(file);
  EXPECT_EQ(entry.name, file);
  EXPECT_EQ(entry.compute, Compute::Paced);
  const auto by_file = entry.make(options)->named_parameters();
  const auto by_name = find_model("paced_bert_base_t4").make(options)->named_parameters();
  EXPECT_EQ(by_file.keys(), by_name.keys());
}

TEST(Registry, AProfileIsReadWhenItIsNamed) {
  const test::TemporaryFolder folder;
  const std::string missing = folder.file("missing.json");
  EXPECT_THAT(test::message_of<ConfigError>([&] { find_model(missing); }), HasSubstr(missing));
  const std::string other = folder.write("other.json", R"({"schema": "gradsync.plan/1"})");
  EXPECT_THAT(test::message_of<ConfigError>([&] { find_model(other); }),
              HasSubstr("expected \"gradsync.profile/1\""));
}

}  // namespace
}  // namespace gradsync::models
