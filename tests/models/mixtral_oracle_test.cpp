// Our Mixtral against transformers' MixtralForCausalLM on the same checkpoint and batches.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <set>

#include "models/checkpoint.h"
#include "models/mixtral.h"
#include "models/safetensors.h"
#include "models/safetensors_file.h"
#include "tests/models/oracle.h"

namespace gradsync::models {
namespace {

using nlohmann::json;
using test::largest_difference;

constexpr double kTolerance = 1e-5;

// mixtral_tiny's sizes.
constexpr const char* kSizes = "2 64 4 2 128 1000";

Batch batch_of(const json& answer) {
  Batch batch;
  batch.input_ids = test::integers(answer["input_ids"]);
  batch.attention_mask = test::integers(answer["attention_mask"]);
  return batch;
}

class MixtralOracle : public testing::Test {
 protected:
  void SetUp() override {
    // Importing transformers takes seconds: ask once.
    if (!asked_) asked_ = std::make_unique<test::Answers>("mixtral_oracle.py", kSizes);
    if (asked_->status == test::kOracleIsMissing) GTEST_SKIP() << asked_->log;
    ASSERT_EQ(asked_->status, 0) << asked_->log;
    ModelOptions options;
    options.weights = asked_->folder.file("model.safetensors");
    model_ =
        std::dynamic_pointer_cast<MixtralForCausalLM>(find_model("mixtral_tiny").make(options));
  }
  static void TearDownTestSuite() { asked_.reset(); }

  static SafetensorsFile stored(const std::string& name) {
    return SafetensorsFile(asked_->folder.file(name));
  }
  static const json& answers() { return asked_->values; }

  static std::unique_ptr<test::Answers> asked_;
  std::shared_ptr<MixtralForCausalLM> model_;
};

std::unique_ptr<test::Answers> MixtralOracle::asked_;

TEST_F(MixtralOracle, HasTheTensorsOfACheckpoint) {
  const SafetensorsFile file = stored("model.safetensors");
  std::map<std::string, std::vector<std::int64_t>> ours;
  std::map<std::string, std::vector<std::int64_t>> theirs;
  for (const auto& item : model_->named_parameters()) {
    ours[item.key()] = item.value().sizes().vec();
  }
  for (const auto& [name, tensor] : file.tensors()) theirs[name] = tensor.shape;
  EXPECT_EQ(ours, theirs);
  EXPECT_TRUE(model_->freshly_initialised().empty());
}

// As save_pretrained cuts them.
TEST_F(MixtralOracle, ReadsTheSameFromSeveralFiles) {
  const std::string folder = asked_->folder.file("in_shards");
  const Checkpoint checkpoint(folder);
  std::set<const SafetensorsFile*> files;
  for (const auto& [name, file] : checkpoint.tensors()) files.insert(file);
  EXPECT_GT(files.size(), 2U);
  ModelOptions options;
  options.weights = folder;
  const auto model = find_model("mixtral_tiny").make(options);
  const auto whole = model_->named_parameters();
  for (const auto& item : model->named_parameters()) {
    EXPECT_TRUE(item.value().equal(whole[item.key()])) << item.key();
  }
  EXPECT_TRUE(model->freshly_initialised().empty());
}

TEST_F(MixtralOracle, HasTheSameBuffers) {
  json buffers = json::array();
  for (const auto& item : model_->named_buffers()) {
    const at::Tensor& values = item.value();
    const std::vector<float> list(values.data_ptr<float>(),
                                  values.data_ptr<float>() + values.numel());
    buffers.push_back({{"name", item.key()}, {"values", list}});
  }
  EXPECT_EQ(buffers, answers()["buffers"]);
}

TEST_F(MixtralOracle, GivesTheSameLogitsAndLoss) {
  const SafetensorsFile logits = stored("logits.safetensors");
  for (std::size_t i = 0; i < answers()["batches"].size(); ++i) {
    const json& answer = answers()["batches"][i];
    const Batch batch = batch_of(answer);
    EXPECT_LT(largest_difference(model_->logits(batch), logits.read(std::to_string(i))), kTolerance)
        << i;
    EXPECT_NEAR(model_->loss(batch).item<double>(), answer["loss"].get<double>(), kTolerance) << i;
  }
}

TEST_F(MixtralOracle, GivesTheSameLogitsWithoutAMaskThatMasksNothing) {
  Batch batch = batch_of(answers()["batches"][1]);
  batch.attention_mask = at::Tensor();
  EXPECT_LT(largest_difference(model_->logits(batch), stored("logits.safetensors").read("1")),
            kTolerance);
}

TEST_F(MixtralOracle, GivesTheSameGradients) {
  model_->loss(batch_of(answers()["batches"][0])).backward();
  const SafetensorsFile file = stored("gradients.safetensors");
  for (const auto& item : model_->named_parameters()) {
    const at::Tensor theirs = file.read(item.key());
    const double scale = std::max(1.0, theirs.abs().max().item<double>());
    EXPECT_LT(largest_difference(item.value().grad(), theirs), kTolerance * scale) << item.key();
  }
}

// DDP's buckets follow this order. transformers fuses a layer's experts, so they count as one.
TEST_F(MixtralOracle, MakesGradientsReadyInTheSameOrder) {
  std::vector<std::string> ready;
  for (const auto& item : model_->named_parameters()) {
    const std::string name = item.key().substr(0, item.key().find(".experts."));
    item.value().register_hook([&ready, name](const at::Tensor&) {
      if (ready.empty() || ready.back() != name) ready.push_back(name);
    });
  }
  model_->loss(batch_of(answers()["batches"][0])).backward();
  EXPECT_EQ(json(ready), answers()["ready"]);
}

}  // namespace
}  // namespace gradsync::models
