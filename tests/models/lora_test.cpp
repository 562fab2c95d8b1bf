// Low-rank updates: what of a BERT they train, that they begin as nothing, and who has none.
#include "models/lora.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "models/bert.h"
#include "models/data.h"
#include "models/pace.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t kRank = 5;

std::shared_ptr<Model> bert_tiny(std::int64_t rank, LoraModules modules = LoraModules::QueryValue) {
  ModelOptions options;
  options.lora = {rank, modules};
  return find_model("bert_tiny").make(options);
}

// As after some training.
void move_updates(Model& model) {
  const at::NoGradGuard no_grad;
  for (auto& item : model.named_parameters()) {
    if (item.key().ends_with("lora_B.weight")) {
      item.value().copy_(at::sin(at::arange(item.value().numel())).reshape(item.value().sizes()));
    }
  }
}

at::Tensor loss_of(Model& model) {
  DataOptions options;
  options.micro_batch_size = 3;
  options.sequence_length = 8;
  options.vocabulary_size = model.vocabulary_size();
  DataLoader data(options, 1);
  at::manual_seed(5);
  return model.loss(data.next());
}

std::vector<std::string> trained_by(Model& model) {
  std::vector<std::string> trained;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) trained.push_back(item.key());
  }
  return trained;
}

TEST(Lora, TrainsQueriesValuesAndTheClassifierAlone) {
  const std::vector<std::string> trained = trained_by(*bert_tiny(kRank));
  const std::string layers = "bert.encoder.layer.";
  EXPECT_THAT(trained, ElementsAre(layers + "0.attention.self.query.lora_A.weight",
                                   layers + "0.attention.self.query.lora_B.weight",
                                   layers + "0.attention.self.value.lora_A.weight",
                                   layers + "0.attention.self.value.lora_B.weight",
                                   layers + "1.attention.self.query.lora_A.weight",
                                   layers + "1.attention.self.query.lora_B.weight",
                                   layers + "1.attention.self.value.lora_A.weight",
                                   layers + "1.attention.self.value.lora_B.weight",
                                   "classifier.weight", "classifier.bias"));
}

TEST(Lora, TrainsMoreWhereMoreHasUpdates) {
  // Factors of so many linear layers in each of two layers, of the pooler, the classifier's.
  EXPECT_THAT(trained_by(*bert_tiny(kRank, LoraModules::Attention)), SizeIs(2 * 2 * 4 + 2));
  const std::vector<std::string> all = trained_by(*bert_tiny(kRank, LoraModules::AllLinear));
  EXPECT_THAT(all, SizeIs(2 * 2 * 6 + 2 + 2));
  EXPECT_THAT(all, Contains("bert.encoder.layer.1.output.dense.lora_A.weight"));
  EXPECT_THAT(all, Contains("bert.pooler.dense.lora_B.weight"));
}

// A as a linear layer begins, B as nothing: for `in` inputs, uniform in +- 1 / sqrt(in), whose
// standard deviation is 1 / sqrt(3 in).
TEST(Lora, BeginsAsNothing) {
  const auto with = bert_tiny(kRank);
  const auto without = bert_tiny(0);
  EXPECT_TRUE(loss_of(*with).equal(loss_of(*without)));
  const auto own = without->named_parameters();
  const double in = 128;
  for (const auto& item : with->named_parameters()) {
    const at::Tensor& values = item.value();
    if (item.key().ends_with("lora_A.weight")) {
      EXPECT_EQ(values.sizes(), at::IntArrayRef({kRank, 128}));
      EXPECT_LE(values.abs().max().item<double>(), 1 / std::sqrt(in));
      EXPECT_NEAR(values.std().item<double>(), 1 / std::sqrt(3 * in), 0.004);
    } else if (item.key().ends_with("lora_B.weight")) {
      EXPECT_EQ(values.sizes(), at::IntArrayRef({128, kRank}));
      EXPECT_TRUE(values.eq(0).all().item<bool>());
    } else {
      EXPECT_TRUE(values.equal(own[item.key()])) << item.key();
    }
  }
}

TEST(Lora, GivesTheSameBitsWhereLayersRunAgain) {
  std::map<std::string, at::Tensor> gradients[2];
  at::Tensor losses[2];
  for (const int every : {0, 1}) {
    const auto model = bert_tiny(kRank, LoraModules::AllLinear);
    move_updates(*model);
    model->set_recomputation({{every}, {}});
    losses[every] = loss_of(*model);
    losses[every].backward();
    for (const auto& item : model->named_parameters()) {
      if (item.value().grad().defined()) gradients[every][item.key()] = item.value().grad();
    }
  }
  EXPECT_TRUE(losses[0].equal(losses[1]));
  EXPECT_FALSE(losses[0].equal(loss_of(*bert_tiny(0))));
  EXPECT_EQ(gradients[0].size(), 2 * 2 * 6 + 2 + 2);
  EXPECT_EQ(gradients[1].size(), gradients[0].size());
  for (const auto& [name, gradient] : gradients[0]) {
    EXPECT_TRUE(gradient.ne(0).any().item<bool>()) << name;
    EXPECT_TRUE(gradient.equal(gradients[1].at(name))) << name;
  }
}

TEST(Lora, IsOnlyForABertAndNoWiderThanThat) {
  FakeClock clock;
  ModelOptions options;
  options.pace = host_pace(clock);
  options.lora = {4};
  for (const char* name : {"mlp", "convnet", "mixtral_tiny", "paced_bert_base_t4"}) {
    EXPECT_EQ(
        test::message_of<ConfigError>([&] { find_model(name).make(options); }),
        std::string("lora_rank: got 4 for model '") + name + "': only a BERT has low-rank updates");
  }
  EXPECT_EQ(bert_tiny(128)->named_parameters()["classifier.weight"].requires_grad(), true);
  EXPECT_THAT(test::message_of<ConfigError>([] { bert_tiny(129); }),
              HasSubstr("lora_rank: got 129 for model 'bert_tiny': it is so wide"));
}

}  // namespace
}  // namespace gradsync::models
