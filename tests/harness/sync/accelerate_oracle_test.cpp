// Our loops against Accelerate's own, micro-batch by micro-batch: what is due, what is reduced,
// gradients, parameters and learning rates. What ran there: accelerate_oracle.py.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "harness/sync/accelerator.h"
#include "harness/sync/ddp.h"
#include "tests/harness/sync/ranks.h"
#include "tests/models/oracle.h"

namespace gradsync::test {
namespace {

using nlohmann::json;
using sync::DistributedDataParallel;
using Models = std::vector<std::unique_ptr<DistributedDataParallel>>;

constexpr double kTolerance = 1e-6;

// y = a x + b, fitted to `labels`; both are in tenths. It begins where the oracle's does.
class Line : public models::Model {
 public:
  explicit Line(int number) {
    a_ = register_parameter("a", at::full({1}, 0.1 * (number + 1)));
    b_ = register_parameter("b", at::full({1}, -0.2 * (number + 1)));
  }
  at::Tensor loss(const models::Batch& batch) override {
    return (a_ * (batch.input_ids / 10.0) + b_ - batch.labels / 10.0).pow(2).mean();
  }

 private:
  at::Tensor a_, b_;
};

models::Batch batch_of(const json& seen) {
  models::Batch batch;
  batch.input_ids = at::tensor(seen["x"].get<std::vector<std::int64_t>>(), at::kLong);
  batch.labels = at::tensor(seen["y"].get<std::vector<std::int64_t>>(), at::kLong);
  return batch;
}

void expect_values(const std::vector<at::Tensor>& ours, const json& theirs, const char* what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i].item<double>(), theirs[i].get<double>(), kTolerance) << what << " " << i;
  }
}

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

// One of the oracle's loops, with our API in Accelerate's place.
class Replay {
 public:
  Replay(RankHarness& rank, const json& answers, const json& scenario)
      : rank_(rank),
        scenario_(scenario),
        accelerator_({.num_steps = scenario["num_steps"],
                      .adjust_scheduler = scenario["adjust_scheduler"],
                      .sync_with_dataloader = scenario["sync_with_dataloader"],
                      .sync_each_batch = scenario["sync_each_batch"]},
                     rank.world_size),
        models_(make_models(rank, scenario["models"])),
        adamw_(parameters_of(models_), {.lr = answers["lr"]}),
        optimizer_(adamw_, accelerator_),
        schedule_(adamw_, 0, answers["schedule_steps"]),
        scheduler_(schedule_, accelerator_,
                   {.split_batches = scenario["split_batches"],
                    .step_with_optimizer = scenario["step_with_optimizer"]}) {}

  void run(std::size_t micro_batches_per_epoch) {
    const json& seen = scenario_["ranks"][static_cast<std::size_t>(rank_.rank)];
    for (std::size_t first = 0; first < seen.size(); first += micro_batches_per_epoch) {
      std::size_t place = first;
      for (sync::Epoch epoch(accelerator_, static_cast<std::int64_t>(micro_batches_per_epoch));
           epoch.next(); ++place) {
        SCOPED_TRACE(fmt::format("{}, rank {}, micro-batch {}",
                                 scenario_["name"].get<std::string>(), rank_.rank, place));
        micro_batch(seen[place]);
      }
    }
  }

 private:
  static Models make_models(RankHarness& rank, int count) {
    Models models;
    for (int number = 0; number < count; ++number) {
      models.push_back(std::make_unique<DistributedDataParallel>(std::make_shared<Line>(number),
                                                                 rank.group, sync::DdpOptions{}));
    }
    return models;
  }

  static std::vector<at::Tensor> parameters_of(const Models& models) {
    std::vector<at::Tensor> parameters;
    for (const auto& model : models) {
      parameters.insert(parameters.end(), model->parameters().begin(), model->parameters().end());
    }
    return parameters;
  }

  void forward_and_backward(const models::Batch& batch) {
    at::Tensor loss = at::zeros({});
    for (const auto& model : models_) loss = loss + model->forward(batch);
    accelerator_.backward(loss);
  }

  void micro_batch(const json& seen) {
    const bool zero_grad_first = scenario_["zero_grad_first"];
    std::vector<sync::Wrapper*> models;
    for (const auto& model : models_) models.push_back(model.get());
    const auto window = accelerator_.accumulate(models);
    EXPECT_EQ(accelerator_.sync_gradients(), seen["sync_gradients"].get<bool>());
    for (std::size_t i = 0; i < models.size(); ++i) {
      EXPECT_EQ(!models[i]->require_backward_grad_sync(), seen["no_sync"][i].get<bool>());
    }
    if (zero_grad_first) optimizer_.zero_grad();
    EXPECT_EQ(all_reduces(rank_, [&] { forward_and_backward(batch_of(seen)); }),
              seen["all_reduces"].get<int>());
    expect_values(gradients(parameters_of(models_)), seen["gradients"], "gradient");
    optimizer_.step();
    scheduler_.step();
    if (!zero_grad_first) optimizer_.zero_grad();
    expect_values(parameters_of(models_), seen["parameters"], "parameter");
    EXPECT_NEAR(optimizer_.lr(), seen["lr"].get<double>(), 1e-12);
    EXPECT_EQ(schedule_.counted(), seen["scheduler_steps"].get<int>());
  }

  RankHarness& rank_;
  const json& scenario_;
  sync::Accelerator accelerator_;
  Models models_;
  sync::FusedAdamW adamw_;
  sync::PreparedOptimizer optimizer_;
  sync::LinearWarmup schedule_;
  sync::PreparedScheduler scheduler_;
};

class AccelerateOracle : public testing::Test {
 protected:
  void SetUp() override {
    // Importing accelerate takes seconds: ask once.
    if (!answers_) {
      answers_ = std::make_unique<Answers>("accelerate_oracle.py", "", "harness/sync");
    }
    if (answers_->status == kOracleIsMissing) GTEST_SKIP() << answers_->log;
    ASSERT_EQ(answers_->status, 0) << answers_->log;
  }
  static void TearDownTestSuite() { answers_.reset(); }
  const json& answers() const { return answers_->values; }

 private:
  static std::unique_ptr<Answers> answers_;
};

std::unique_ptr<Answers> AccelerateOracle::answers_;

TEST_F(AccelerateOracle, LoopsGoTheSameWayMicroBatchByMicroBatch) {
  ASSERT_FALSE(answers()["scenarios"].empty());
  run_ranks(static_cast<int>(answers()["several_forwards"].size()), [&](RankHarness& rank) {
    for (const json& scenario : answers()["scenarios"]) {
      Replay(rank, answers(), scenario).run(answers()["micro_batches"]);
    }
  });
}

// Accelerate 1.15 loses what it documents as its default, so the oracle insists on it. Should this
// fail, a release has repaired that: take it out, and its line in tests/README.md.
TEST_F(AccelerateOracle, AccelerateItselfDoesNotAdjustTheScheduler) {
  EXPECT_EQ(answers()["adjusts_scheduler_by_default"], json::array({false, false}));
}

TEST_F(AccelerateOracle, SeveralForwardsAndATriggeredBackwardGiveTheSame) {
  const json& ranks = answers()["several_forwards"];
  run_ranks(static_cast<int>(ranks.size()), [&](RankHarness& rank) {
    sync::Accelerator accelerator({.num_steps = answers()["scenarios"][0]["num_steps"]},
                                  rank.world_size);
    DistributedDataParallel model(std::make_shared<Line>(0), rank.group, {});
    const json& seen = ranks[static_cast<std::size_t>(rank.rank)];
    std::vector<at::Tensor> losses;
    {
      const auto guard = accelerator.no_sync(model);
      for (const json& batch : seen) losses.push_back(model.forward(batch_of(batch)));
    }
    for (std::size_t i = 0; i < losses.size(); ++i) {
      if (i + 1 == losses.size()) accelerator.trigger_sync_in_backward(model);
      EXPECT_EQ(all_reduces(rank, [&] { accelerator.backward(losses[i]); }),
                seen[i]["all_reduces"].get<int>());
      expect_values(gradients(model.parameters()), seen[i]["gradients"], "gradient");
    }
  });
}

}  // namespace
}  // namespace gradsync::test
