// Covers: module_path.cpp.
#include "models/bert.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "models/pace.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

BertConfig tiny_bert(double dropout = 0.1) {
  return {.layers = 2,
          .hidden = 32,
          .heads = 4,
          .intermediate = 64,
          .vocabulary = 100,
          .positions = 16,
          .dropout = dropout};
}

// Three examples of 6, 4 and 1 tokens, the rest padding.
Batch padded_texts() {
  Batch batch;
  batch.input_ids =
      at::tensor({5, 9, 7, 3, 2, 8, 4, 6, 9, 1, 0, 0, 7, 0, 0, 0, 0, 0}, at::kLong).reshape({3, 6});
  batch.attention_mask = batch.input_ids.ne(0).to(at::kLong);
  batch.labels = at::tensor({1, 0, 1}, at::kLong);
  return batch;
}

std::vector<std::string> names(const torch::nn::Module& model) {
  std::vector<std::string> result;
  for (const auto& item : model.named_parameters()) result.push_back(item.key());
  return result;
}

TEST(Bert, BaseHasThePublishedSize) {
  const BertForSequenceClassification model(BertConfig{}, 1, at::kCPU);
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : model.parameters()) elements += parameter.numel();
  EXPECT_EQ(model.parameters().size(), 201);
  EXPECT_EQ(elements, 108'311'810);
}

TEST(Bert, BaseAndItsPacedTwinHaveTheSameTensorsInTheSameOrder) {
  FakeClock clock;
  ModelOptions options;
  options.pace = host_pace(clock);
  const auto real = find_model("bert_base").make(options);
  const auto twin = find_model("paced_bert_base_t4").make(options);
  EXPECT_EQ(names(*real), names(*twin));
  const auto real_parameters = real->parameters();
  const auto twin_parameters = twin->parameters();
  for (std::size_t i = 0; i < real_parameters.size(); ++i) {
    EXPECT_EQ(real_parameters[i].sizes(), twin_parameters[i].sizes());
  }
  const auto real_buffers = real->named_buffers();
  const auto twin_buffers = twin->named_buffers();
  ASSERT_EQ(real_buffers.keys(), twin_buffers.keys());
  for (const auto& buffer : real_buffers) {
    EXPECT_EQ(buffer.value().sizes(), twin_buffers[buffer.key()].sizes());
    EXPECT_EQ(buffer.value().scalar_type(), twin_buffers[buffer.key()].scalar_type());
  }
}

TEST(Bert, HasTransformersBuffers) {
  const BertForSequenceClassification model(tiny_bert(), 1, at::kCPU);
  EXPECT_THAT(model.named_buffers().keys(),
              ElementsAre("bert.embeddings.position_ids", "bert.embeddings.token_type_ids"));
  for (const at::Tensor& buffer : model.buffers())
    EXPECT_EQ(buffer.sizes(), at::IntArrayRef({1, 16}));
}

TEST(Bert, WithoutDropoutEvaluatesAsItTrains) {
  // Training spells attention's products out, evaluation uses the fused kernel: one must be the
  // other.
  Batch batch = padded_texts();
  for (const bool masked : {true, false}) {
    if (!masked) batch.attention_mask = at::Tensor();
    BertForSequenceClassification fused(tiny_bert(), 3, at::kCPU);
    fused.eval();
    BertForSequenceClassification spelled(tiny_bert(1e-12), 3, at::kCPU);
    EXPECT_TRUE(at::allclose(fused.logits(batch), spelled.logits(batch), 1e-5, 1e-6)) << masked;
  }
}

TEST(Bert, DropoutActsInTrainingOnly) {
  BertForSequenceClassification model(tiny_bert(), 3, at::kCPU);
  const Batch batch = padded_texts();
  EXPECT_FALSE(model.logits(batch).equal(model.logits(batch)));
  model.eval();
  EXPECT_TRUE(model.logits(batch).equal(model.logits(batch)));
}

TEST(Bert, PaddingChangesNothing) {
  BertForSequenceClassification model(tiny_bert(), 3, at::kCPU);
  model.eval();
  const Batch batch = padded_texts();
  const at::Tensor together = model.logits(batch);
  const std::vector<std::int64_t> lengths{6, 4, 1};
  for (std::int64_t i = 0; i < 3; ++i) {
    Batch alone;
    alone.input_ids = batch.input_ids.slice(0, i, i + 1).slice(1, 0, lengths[i]);
    EXPECT_TRUE(at::allclose(model.logits(alone)[0], together[i], 1e-5, 1e-6)) << i;
  }
}

TEST(Bert, ThePaddingTokenIsNoParameter) {
  BertForSequenceClassification model(tiny_bert(), 3, at::kCPU);
  const at::Tensor words = model.named_parameters()["bert.embeddings.word_embeddings.weight"];
  EXPECT_TRUE(words[0].eq(0).all().item<bool>());
  model.loss(padded_texts()).backward();
  EXPECT_TRUE(words.grad()[0].eq(0).all().item<bool>());
  EXPECT_TRUE(words.grad()[7].ne(0).any().item<bool>());
}

TEST(Bert, StartsAsTransformersDoes) {
  const BertForSequenceClassification model(tiny_bert(), 3, at::kCPU);
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& values = item.value();
    if (item.key().ends_with("LayerNorm.weight")) {
      EXPECT_TRUE(values.eq(1).all().item<bool>()) << item.key();
    } else if (item.key().ends_with("bias")) {
      EXPECT_TRUE(values.eq(0).all().item<bool>()) << item.key();
    } else if (values.numel() >= 1000) {
      EXPECT_NEAR(values.std().item<double>(), 0.02, 0.002) << item.key();
      EXPECT_NEAR(values.mean().item<double>(), 0, 0.002) << item.key();
    }
  }
}

TEST(Bert, RefusesASequenceLongerThanItsPositions) {
  BertForSequenceClassification model(tiny_bert(), 3, at::kCPU);
  Batch batch;
  batch.input_ids = at::ones({1, 17}, at::kLong);
  EXPECT_THAT(test::message_of<ConfigError>([&] { model.logits(batch); }),
              HasSubstr("sequence_length: got 17 tokens, expected at most BERT's 16"));
}

}  // namespace
}  // namespace gradsync::models
