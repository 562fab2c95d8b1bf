// Our BERT against transformers' BertForSequenceClassification on the same checkpoint and batches.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "harness/base/json_fields.h"
#include "models/bert.h"
#include "models/safetensors.h"
#include "models/safetensors_file.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using nlohmann::json;

constexpr int kSkipped = 77;
constexpr double kTolerance = 1e-5;

std::string python() {
  const char* chosen = std::getenv("GRADSYNC_PYTHON");
  return chosen != nullptr ? chosen : GRADSYNC_PYTHON;
}

at::Tensor integers(const json& rows) {
  const auto values = rows.get<std::vector<std::vector<std::int64_t>>>();
  std::vector<at::Tensor> tensors;
  for (const auto& row : values) tensors.push_back(at::tensor(row, at::kLong));
  return at::stack(tensors);
}

Batch batch_of(const json& answer) {
  Batch batch;
  batch.input_ids = integers(answer["input_ids"]);
  batch.attention_mask = integers(answer["attention_mask"]);
  batch.labels = at::tensor(answer["labels"].get<std::vector<std::int64_t>>(), at::kLong);
  return batch;
}

double largest_difference(const at::Tensor& ours, const at::Tensor& theirs) {
  return (ours - theirs).abs().max().item<double>();
}

// What transformers says about one size of model.
struct Answers {
  test::TemporaryFolder folder;
  int status = 0;
  std::string log;
  json values;

  explicit Answers(const BertConfig& config) {
    const std::string command =
        fmt::format("'{}' -B '{}/tests/models/bert_oracle.py' '{}' {} {} {} {} >'{}' 2>&1",
                    python(), GRADSYNC_SOURCE_DIR, folder.file(""), config.layers, config.hidden,
                    config.heads, config.intermediate, folder.file("log"));
    const int ended = std::system(command.c_str());
    status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    std::stringstream text;
    text << std::ifstream(folder.file("log")).rdbuf();
    log = text.str();
    if (status == 0) values = read_json_file(folder.file("answers.json"));
  }
};

class Oracle : public testing::TestWithParam<BertConfig> {
 protected:
  void SetUp() override {
    auto& answers = asked_[GetParam().layers];
    // Importing transformers takes seconds: ask once per size.
    if (!answers) answers = std::make_unique<Answers>(GetParam());
    if (answers->status == kSkipped) GTEST_SKIP() << answers->log;
    ASSERT_EQ(answers->status, 0) << answers->log;
    answers_ = answers.get();
    model_ = std::make_unique<BertForSequenceClassification>(GetParam(), 1, at::kCPU);
    load_safetensors(answers_->folder.file("model.safetensors"), *model_);
    model_->eval();
  }
  static void TearDownTestSuite() { asked_.clear(); }

  static std::map<std::int64_t, std::unique_ptr<Answers>> asked_;
  const Answers* answers_ = nullptr;
  std::unique_ptr<BertForSequenceClassification> model_;
};

std::map<std::int64_t, std::unique_ptr<Answers>> Oracle::asked_;

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
    EXPECT_LT(largest_difference(item.value().grad(), theirs), kTolerance * scale) << item.key();
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

INSTANTIATE_TEST_SUITE_P(
    Transformers, Oracle,
    testing::Values(BertConfig{.layers = 2, .hidden = 128, .heads = 2, .intermediate = 512},
                    BertConfig{.layers = 4, .hidden = 256, .heads = 4, .intermediate = 1024}),
    [](const auto& info) { return info.param.layers == 2 ? "tiny" : "mini"; });

}  // namespace
}  // namespace gradsync::models
