// Stages against one process that has the whole model: the same training, exactly the declared
// messages, and only a stage's own parameters.
// Covers: pipelined.cpp.
#include "harness/sync/pipeline.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

#include "harness/base/errors.h"
#include "harness/plan/strategies.h"
#include "harness/run/expectation.h"
#include "harness/sync/backward.h"
#include "harness/sync/strategies/strategy.h"
#include "models/pace.h"
#include "tests/harness/sync/ranks.h"

namespace gradsync::test {
namespace {

using sync::PipelineStage;

constexpr int kMicroBatches = 3;
constexpr int kSteps = 2;

const std::string kWithUpdates = " with low-rank updates";  // after a model's name

std::shared_ptr<models::Model> make_model(std::string name) {
  models::ModelOptions options;
  options.pace = models::host_pace(steady_clock());
  if (name.ends_with(kWithUpdates)) {
    name.resize(name.size() - kWithUpdates.size());
    options.lora = {3, models::LoraModules::AllLinear};
  }
  const models::ModelEntry entry = models::find_model(name);
  if (entry.compute == models::Compute::Paced) options.scale = 1000;
  auto model = entry.make(options);
  model->eval();  // no dropout
  return model;
}

models::DataLoader make_data(const models::Model& model) {
  models::DataOptions options;
  options.micro_batch_size = 2;
  options.sequence_length = 8;
  if (model.vocabulary_size() > 0) options.vocabulary_size = model.vocabulary_size();
  return {options, kMicroBatches * kSteps};
}

using Parameters = std::map<std::string, at::Tensor>;

// What one process that has the whole model makes of its parameters.
Parameters train_alone(const std::string& name) {
  const auto model = make_model(name);
  models::DataLoader data = make_data(*model);
  std::vector<at::Tensor> trained;
  std::ranges::copy_if(model->parameters(), std::back_inserter(trained),
                       [](const at::Tensor& parameter) { return parameter.requires_grad(); });
  sync::FusedAdamW optimizer(trained, {.lr = 1e-2});
  for (int i = 0; i < kSteps * kMicroBatches; ++i) {
    sync::backward(model->loss(data.next()), kMicroBatches, nullptr);
    if ((i + 1) % kMicroBatches > 0) continue;
    optimizer.step();
    optimizer.zero_grad();
  }
  Parameters parameters;
  for (const auto& item : model->named_parameters()) {
    parameters["parameter " + item.key()] = item.value().detach();
  }
  return parameters;
}

class Pipeline : public ::testing::TestWithParam<std::tuple<std::string, std::string, int>> {
 protected:
  static std::string model_name() { return std::get<0>(GetParam()); }
  static std::string strategy_name() { return std::get<1>(GetParam()); }
  static int ranks() { return std::get<2>(GetParam()); }

  // Trains this rank's stage; the ledger then holds all steps but the first.
  static std::unique_ptr<PipelineStage> train(RankHarness& rank) {
    const auto module = make_model(model_name());
    models::DataLoader data = make_data(*module);
    auto stage = std::make_unique<PipelineStage>(module, rank.group, &rank.recorder);
    sync::FusedAdamW optimizer(stage->parameters(), {.lr = 1e-2});
    sync::LinearWarmup scheduler(optimizer, 0, 1'000'000);
    sync::Training training{*stage,        optimizer,   scheduler,      data,
                            rank.recorder, rank.ledger, rank.world_size};
    const auto strategy = sync::make_strategy(strategy_name());
    rank.recorder.begin_block();
    for (training.step = 0; training.step < kSteps; ++training.step) {
      strategy->step(training, kMicroBatches);
      rank.recorder.end_step();
    }
    rank.ledger.settle(kTimeoutS);
    return stage;
  }
};

TEST_P(Pipeline, TrainsAsOneProcessDoes) {
  run_ranks(ranks(), [](RankHarness& rank) {
    const Parameters wanted = train_alone(model_name());
    const auto stage = train(rank);
    const auto names = stage->parameter_names();
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_TRUE(at::allclose(stage->parameters()[i], wanted.at(names[i]), 1e-4, 1e-6))
          << names[i];
    }
  });
}

TEST_P(Pipeline, SendsWhatItDeclares) {
  run_ranks(ranks(), [](RankHarness& rank) {
    const auto stage = train(rank);
    const auto syncs = plan::declared_syncs("pipeline", strategy_name(), kMicroBatches);
    const auto declared = stage->declared(syncs);
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_EQ(run::first_mismatch(declared, rank.ledger.events(), step), "");
    }
    const auto counts = run::expected_of_step(declared);
    const int neighbours = (rank.rank > 0 ? 1 : 0) + (rank.rank + 1 < rank.world_size ? 1 : 0);
    EXPECT_EQ(counts.at("send").count, neighbours * kMicroBatches);
    EXPECT_EQ(counts.at("recv").count, neighbours * kMicroBatches);
  });
}

INSTANTIATE_TEST_SUITE_P(Models, Pipeline,
                         ::testing::Combine(::testing::Values("mlp", "bert_tiny",
                                                              "bert_tiny" + kWithUpdates,
                                                              "paced_bert_base_t4"),
                                            ::testing::Values("baseline", "pipelined"),
                                            ::testing::Values(2)));
INSTANTIATE_TEST_SUITE_P(ThreeStages, Pipeline,
                         ::testing::Combine(::testing::Values("mlp"),
                                            ::testing::Values("baseline", "pipelined"),
                                            ::testing::Values(3)));

TEST(PipelineStages, HoldEachParameterOnceAndNoOthersMemory) {
  run_ranks(2, [](RankHarness& rank) {
    const auto module = make_model("bert_tiny");
    const PipelineStage stage(module, rank.group, nullptr);
    std::size_t held = 0;
    for (const auto& item : module->named_parameters()) {
      held += item.value().storage().nbytes() > 0 ? 1 : 0;
    }
    EXPECT_EQ(held, stage.parameters().size());
    const auto names = stage.parameter_names();
    const auto has = [&](const std::string& name) {
      return std::find(names.begin(), names.end(), "parameter " + name) != names.end();
    };
    const bool first = rank.rank == 0;
    EXPECT_EQ(has("bert.embeddings.word_embeddings.weight"), first);
    EXPECT_EQ(has("bert.encoder.layer.0.output.dense.weight"), first);
    EXPECT_EQ(has("bert.encoder.layer.1.output.dense.weight"), !first);
    EXPECT_EQ(has("classifier.weight"), !first);
  });
}

// With every forward first, the last rank has computed all of them before the first backward.
TEST(PipelineStages, OverlapOnlyWhereForwardsComeFirst) {
  run_ranks(2, [](RankHarness& rank) {
    for (const char* name : {"baseline", "pipelined"}) {
      const auto module = make_model("mlp");
      models::DataLoader data = make_data(*module);
      PipelineStage stage(module, rank.group, &rank.recorder);
      sync::FusedAdamW optimizer(stage.parameters(), {});
      sync::LinearWarmup scheduler(optimizer, 0, 1'000'000);
      sync::Training training{stage,         optimizer,   scheduler,      data,
                              rank.recorder, rank.ledger, rank.world_size};
      rank.recorder.begin_block();
      sync::make_strategy(name)->step(training, kMicroBatches);
      rank.recorder.end_step();
      std::string order;  // of micro-batches, as phases other than waiting begin
      for (const auto& interval : rank.recorder.steps().front().intervals) {
        const bool forward = interval.phase == measure::Phase::Forward;
        if (!forward && interval.phase != measure::Phase::Backward) continue;
        const std::string at = (forward ? "F" : "B") + std::to_string(interval.micro_batch);
        if (!order.ends_with(at)) order += at;
      }
      EXPECT_EQ(order, std::string(name) == "baseline" ? "F0B0F1B1F2B2" : "F0F1F2B0B1B2");
    }
  });
}

TEST(PipelineStages, AReceiptIsInTheLedgerUntilItWasWaitedFor) {
  run_ranks(2, [](RankHarness& rank) {
    rank.ledger.settle(kTimeoutS);
    rank.ledger.clear();
    std::vector<at::Tensor> message{at::full({2}, rank.rank)};
    if (rank.rank == 0) {
      rank.group->send(message, 1, 7)->wait();
      EXPECT_GT(rank.ledger.events().at(0).end_ns, 0);
    } else {
      const auto receipt = rank.group->recv(message, 0, 7);
      EXPECT_EQ(rank.ledger.events().at(0).end_ns, 0);
      receipt->wait();
      EXPECT_GT(rank.ledger.events().at(0).end_ns, 0);
      EXPECT_EQ(message[0][1].item<float>(), 0);
    }
    rank.ledger.settle(kTimeoutS);
  });
}

TEST(PipelineStages, AModelThatCannotBeCutIsRefused) {
  run_ranks(2, [](RankHarness& rank) {
    try {
      const PipelineStage stage(std::make_shared<ToyModel>(), rank.group, nullptr);
      ADD_FAILURE() << "a model without units was cut";
    } catch (const ConfigError& error) {
      EXPECT_STREQ(error.what(),
                   "wrapper pipeline: got a model of 0 units on 2 ranks, expected at least one "
                   "unit for each rank");
    }
    models::DataLoader data = make_data(*make_model("mixtral_tiny"));
    PipelineStage stage(make_model("mixtral_tiny"), rank.group, nullptr);
    EXPECT_THROW(stage.forward(data.next()), ConfigError);
  });
}

}  // namespace
}  // namespace gradsync::test
