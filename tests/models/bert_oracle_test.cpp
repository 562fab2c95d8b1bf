// Our BERT against transformers' BertForSequenceClassification on the same checkpoint and batches,
// and our low-rank updates against peft's.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "models/bert.h"
#include "models/footprints.h"
#include "models/safetensors.h"
#include "models/safetensors_file.h"
#include "tests/models/oracle.h"

namespace gradsync::models {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-5;
constexpr std::uint64_t kSeed = 5;  // both as bert_oracle.py has them
constexpr std::int64_t kLoraRank = 3;

Batch batch_of(const json& answer) {
  Batch batch;
  batch.input_ids = test::integers(answer["input_ids"]);
  batch.attention_mask = test::integers(answer["attention_mask"]);
  batch.labels = at::tensor(answer["labels"].get<std::vector<std::int64_t>>(), at::kLong);
  return batch;
}

std::string arguments_of(const BertConfig& config) {
  return fmt::format("{} {} {} {}", config.layers, config.hidden, config.heads,
                     config.intermediate);
}

class Oracle : public testing::TestWithParam<BertConfig> {
 protected:
  void SetUp() override {
    auto& answers = asked_[GetParam().layers];
    // Importing transformers takes seconds: ask once per size.
    if (!answers)
      answers = std::make_unique<test::Answers>("bert_oracle.py", arguments_of(GetParam()));
    if (answers->status == test::kOracleIsMissing) GTEST_SKIP() << answers->log;
    ASSERT_EQ(answers->status, 0) << answers->log;
    answers_ = answers.get();
    model_ = std::make_unique<BertForSequenceClassification>(GetParam(), 1, at::kCPU);
    load_safetensors(answers_->folder.file("model.safetensors"), *model_);
    model_->eval();
  }
  static void TearDownTestSuite() { asked_.clear(); }

  static std::map<std::int64_t, std::unique_ptr<test::Answers>> asked_;
  const test::Answers* answers_ = nullptr;
  std::unique_ptr<BertForSequenceClassification> model_;
};

std::map<std::int64_t, std::unique_ptr<test::Answers>> Oracle::asked_;

TEST_P(Oracle, HasTheSameParametersAndBuffersInTheSameOrder) {
  json parameters = json::array();
  for (const auto& item : model_->named_parameters()) {
    parameters.push_back({{"name", item.key()}, {"shape", item.value().sizes().vec()}});
  }
  EXPECT_EQ(parameters, answers_->values["parameters"]);
  json buffers = json::array();
  for (const auto& item : model_->named_buffers()) {
    const at::Tensor& values = item.value();
    const std::vector<std::int64_t> list(values.data_ptr<std::int64_t>(),
                                         values.data_ptr<std::int64_t>() + values.numel());
    buffers.push_back({{"name", item.key()}, {"values", list}});
  }
  EXPECT_EQ(buffers, answers_->values["buffers"]);
}

TEST_P(Oracle, GivesTheSameLogitsAndLoss) {
  for (const json& answer : answers_->values["batches"]) {
    const Batch batch = batch_of(answer);
    const auto rows = answer["logits"].get<std::vector<std::vector<double>>>();
    const at::Tensor logits = model_->logits(batch);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t k = 0; k < rows[i].size(); ++k) {
        EXPECT_NEAR(logits[i][k].item<double>(), rows[i][k], kTolerance);
      }
    }
    EXPECT_NEAR(model_->loss(batch).item<double>(), answer["loss"].get<double>(), kTolerance);
  }
}

TEST_P(Oracle, GivesTheSameLogitsWithoutAMaskThatMasksNothing) {
  Batch batch = batch_of(answers_->values["batches"][1]);
  batch.attention_mask = at::Tensor();
  EXPECT_NEAR(model_->loss(batch).item<double>(),
              answers_->values["batches"][1]["loss"].get<double>(), kTolerance);
}

TEST_P(Oracle, GivesTheSameGradients) {
  model_->loss(batch_of(answers_->values["batches"][0])).backward();
  const SafetensorsFile file(answers_->folder.file("gradients.safetensors"));
  for (const auto& item : model_->named_parameters()) {
    const at::Tensor theirs = file.read(item.key());
    const double scale = std::max(1.0, theirs.abs().max().item<double>());
    EXPECT_LT(test::largest_difference(item.value().grad(), theirs), kTolerance * scale)
        << item.key();
  }
}

// DDP's buckets follow this order: another one cuts other buckets, and more or fewer all-reduces.
TEST_P(Oracle, MakesGradientsReadyInTheSameOrder) {
  std::vector<std::string> ready;
  for (const auto& item : model_->named_parameters()) {
    item.value().register_hook([&ready, name = item.key()](const at::Tensor& gradient) {
      ready.push_back(name);
      return gradient;
    });
  }
  model_->loss(batch_of(answers_->values["batches"][0])).backward();
  EXPECT_EQ(json(ready), answers_->values["ready"]);
}

// With dropout: a second run that drew other masks would have other gradients.
TEST_P(Oracle, GivesTheSameLossAndGradientsWithEveryLayerCheckpointed) {
  model_->train();
  model_->set_recomputation({{1}, {}});
  at::manual_seed(kSeed);
  const at::Tensor loss = model_->loss(batch_of(answers_->values["batches"][1]));
  EXPECT_NEAR(loss.item<double>(), answers_->values["checkpointed_loss"].get<double>(), kTolerance);
  loss.backward();
  const SafetensorsFile file(answers_->folder.file("checkpointed.safetensors"));
  for (const auto& item : model_->named_parameters()) {
    const at::Tensor theirs = file.read(item.key());
    const double scale = std::max(1.0, theirs.abs().max().item<double>());
    EXPECT_LT(test::largest_difference(item.value().grad(), theirs), kTolerance * scale)
        << item.key();
  }
}

// What a layer's forward leaves, by its footprint, which tests hold against what is allocated.
std::int64_t left_by_a_layer(const BertConfig& config, const at::Tensor& ids, KeptOutputs kept) {
  const MicroBatchShape shape{ids.size(0), ids.size(1)};
  const Footprint footprint = bert_footprint(config, shape, {.checkpointed = {1, kept}}).value();
  std::int64_t bytes = 0;
  for (const MemoryEvent& event : footprint.units.at(0).pass->forward.events()) {
    bytes += event.kind == MemoryEvent::Kind::Hold ? event.bytes : -event.bytes;
  }
  return bytes;
}

TEST_P(Oracle, KeepsAsMuchAsTorchsSelectiveCheckpointing) {
  const at::Tensor ids = batch_of(answers_->values["batches"][1]).input_ids;
  const std::int64_t kept = left_by_a_layer(GetParam(), ids, KeptOutputs::Matmul) -
                            left_by_a_layer(GetParam(), ids, KeptOutputs::None);
  EXPECT_EQ(GetParam().layers * kept, answers_->values["kept_bytes"].get<std::int64_t>());
}

// With dropout and padding. Spelled out, attention draws the same masks and is the same.
TEST_P(Oracle, TrainsWithScaledDotProductAttentionAsTransformersDoes) {
  BertConfig config = GetParam();
  config.attention = AttentionImplementation::Sdpa;
  BertForSequenceClassification model(config, 1, at::kCPU);
  load_safetensors(answers_->folder.file("model.safetensors"), model);
  const Batch padded = batch_of(answers_->values["batches"][0]);
  at::manual_seed(kSeed);
  const at::Tensor loss = model.loss(padded);
  EXPECT_NEAR(loss.item<double>(), answers_->values["sdpa_loss"].get<double>(), kTolerance);
  loss.backward();
  const SafetensorsFile file(answers_->folder.file("sdpa.safetensors"));
  for (const auto& item : model.named_parameters()) {
    const at::Tensor theirs = file.read(item.key());
    const double scale = std::max(1.0, theirs.abs().max().item<double>());
    EXPECT_LT(test::largest_difference(item.value().grad(), theirs), kTolerance * scale)
        << item.key();
  }
  model_->train();
  at::manual_seed(kSeed);
  EXPECT_NEAR(model_->loss(padded).item<double>(), loss.item<double>(), kTolerance);
}

// peft's, with dropout and with updates that are not zero: what is trained, in which order, and how
// far it would go. Values in one dtype, as read from one file.
void expect_trained_as_by_peft(const BertConfig& config, const test::Answers& answers,
                               const std::string& which) {
  SCOPED_TRACE(which);
  const json& wanted = answers.values["lora"][which];
  BertForSequenceClassification model(config, 1, at::kCPU, {kLoraRank, lora_modules(which)});
  load_safetensors(answers.folder.file("lora_" + which + ".safetensors"), model);
  json parameters = json::array();
  std::vector<std::string> ready;
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& values = item.value();
    parameters.push_back({item.key(), values.sizes().vec(), values.requires_grad()});
    if (!values.requires_grad()) continue;
    values.register_hook([&ready, name = item.key()](const at::Tensor& gradient) {
      ready.push_back(name);
      return gradient;
    });
  }
  EXPECT_EQ(parameters, wanted["parameters"]);
  at::manual_seed(kSeed);
  const at::Tensor loss = model.loss(batch_of(answers.values["batches"][1]));
  EXPECT_NEAR(loss.item<double>(), wanted["loss"].get<double>(), kTolerance);
  loss.backward();
  EXPECT_EQ(json(ready), wanted["ready"]);
  const SafetensorsFile file(answers.folder.file("lora_" + which + "_gradients.safetensors"));
  std::size_t compared = 0;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().grad().defined()) continue;
    const at::Tensor theirs = file.read(item.key());
    const double scale = std::max(1.0, theirs.abs().max().item<double>());
    EXPECT_GT(theirs.abs().max().item<double>(), 0) << item.key();
    EXPECT_LT(test::largest_difference(item.value().grad(), theirs), kTolerance * scale)
        << item.key();
    ++compared;
  }
  EXPECT_EQ(compared, ready.size());
}

TEST_P(Oracle, TrainsLowRankUpdatesAsPeftDoes) {
  for (const char* which : {"query_value", "attention", "all_linear"}) {
    expect_trained_as_by_peft(GetParam(), *answers_, which);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Transformers, Oracle,
    testing::Values(BertConfig{.layers = 2, .hidden = 128, .heads = 2, .intermediate = 512},
                    BertConfig{.layers = 4, .hidden = 256, .heads = 4, .intermediate = 1024}),
    [](const auto& info) { return info.param.layers == 2 ? "tiny" : "mini"; });

}  // namespace
}  // namespace gradsync::models
