// Our batch normalization, alone and over ranks, against torch.nn.BatchNorm2d on the whole batch:
// torch.nn.SyncBatchNorm computes on GPUs alone.
// Covers: convnet.cpp.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <memory>

#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "models/convnet.h"
#include "models/safetensors.h"
#include "models/safetensors_file.h"
#include "tests/harness/sync/pictures.h"
#include "tests/harness/sync/ranks.h"
#include "tests/models/oracle.h"

namespace gradsync::test {
namespace {

using models::ConvNet;
using models::SafetensorsFile;
using nlohmann::json;

constexpr double kTolerance = 1e-5;

class BatchNormOracle : public testing::Test {
 protected:
  void SetUp() override {
    if (!asked_) asked_ = std::make_unique<Answers>("convnet_oracle.py", "");
    if (asked_->status == kOracleIsMissing) GTEST_SKIP() << asked_->log;
    ASSERT_EQ(asked_->status, 0) << asked_->log;
  }
  static void TearDownTestSuite() { asked_.reset(); }

  static std::shared_ptr<ConvNet> convnet() {
    auto model = std::make_shared<ConvNet>(1, at::kCPU);
    models::load_safetensors(asked_->folder.file("model.safetensors"), *model);
    return model;
  }
  static models::Batch whole_batch() {
    return {integers(asked_->values["input_ids"]), at::Tensor(),
            at::tensor(asked_->values["labels"].get<std::vector<std::int64_t>>(), at::kLong)};
  }
  // The part of the batch that is `rank`'s.
  static models::Batch share(const RankHarness& rank) {
    const models::Batch whole = whole_batch();
    const std::int64_t examples = whole.labels.size(0) / rank.world_size;
    return {whole.input_ids.narrow(0, rank.rank * examples, examples), at::Tensor(),
            whole.labels.narrow(0, rank.rank * examples, examples)};
  }
  static at::Tensor logits(const char* name) {
    std::vector<at::Tensor> rows;
    for (const auto& row : asked_->values[name].get<std::vector<std::vector<float>>>()) {
      rows.push_back(at::tensor(row));
    }
    return at::stack(rows);
  }
  static void expect_gradients(const models::Model& model) {
    const SafetensorsFile theirs(asked_->folder.file("gradients.safetensors"));
    for (const auto& item : model.named_parameters()) {
      EXPECT_LT(relative_difference(item.value().grad(), theirs.read(item.key())), kTolerance)
          << item.key();
    }
  }
  static void expect_statistics(const models::Model& model) {
    const SafetensorsFile theirs(asked_->folder.file("statistics.safetensors"));
    int compared = 0;
    for (const auto& item : model.named_buffers()) {
      if (item.key().ends_with("num_batches_tracked")) continue;
      EXPECT_LT(relative_difference(item.value(), theirs.read(item.key())), kTolerance)
          << item.key();
      ++compared;
    }
    EXPECT_EQ(compared, 6);
  }

  static std::unique_ptr<Answers> asked_;
};

std::unique_ptr<Answers> BatchNormOracle::asked_;

json names_and_shapes(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  json list = json::array();
  for (const auto& item : tensors) {
    list.push_back(json::array({item.key(), item.value().sizes().vec()}));
  }
  return list;
}

TEST_F(BatchNormOracle, TheNetworkIsTheSameInOneProcess) {
  run_ranks(1, [](RankHarness&) {
    const auto model = convnet();
    EXPECT_EQ(names_and_shapes(model->named_parameters()), asked_->values["parameters"]);
    EXPECT_EQ(names_and_shapes(model->named_buffers()), asked_->values["buffers"]);
    const at::Tensor loss = model->loss(whole_batch());
    EXPECT_NEAR(loss.item<double>(), asked_->values["loss"].get<double>(), kTolerance);
    sync::backward(loss, 1, nullptr);
    expect_gradients(*model);
    expect_statistics(*model);
    model->eval();
    EXPECT_LT(relative_difference(model->logits(whole_batch()), logits("evaluated_logits")),
              kTolerance);
  });
}

TEST_F(BatchNormOracle, TwoAndFourRanksAreTheWholeBatch) {
  for (const int world_size : {2, 4}) {
    run_ranks(world_size, [](RankHarness& rank) {
      const auto module = convnet();
      sync::DistributedDataParallel model(module, rank.group, {.sync_batch_norm = true});
      const models::Batch batch = share(rank);
      sync::backward(model.forward(batch), 1, nullptr);
      expect_gradients(*module);
      expect_statistics(*module);
      const at::Tensor rows =
          logits("logits").narrow(0, rank.rank * batch.labels.size(0), batch.labels.size(0));
      EXPECT_LT(relative_difference(module->logits(batch), rows), kTolerance);
    });
  }
}

// The same without SyncBatchNorm: the oracle tells the two apart.
TEST_F(BatchNormOracle, RanksByThemselvesAreNot) {
  run_ranks(2, [](RankHarness& rank) {
    const auto module = convnet();
    sync::DistributedDataParallel model(module, rank.group, {});
    const models::Batch batch = share(rank);
    sync::backward(model.forward(batch), 1, nullptr);
    const SafetensorsFile gradients(asked_->folder.file("gradients.safetensors"));
    const auto parameters = module->named_parameters();
    EXPECT_GT(
        relative_difference(parameters["layer0.weight"].grad(), gradients.read("layer0.weight")),
        0.05);
  });
}

}  // namespace
}  // namespace gradsync::test
