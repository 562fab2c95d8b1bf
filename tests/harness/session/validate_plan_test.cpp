// What of a plan no rank could do, said before one starts.
#include "harness/session/validate_plan.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::session {
namespace {

using testing::HasSubstr;

plan::Plan plan_of(const plan::Cell& cell) {
  plan::Plan plan;
  plan.file = "p.json";
  plan.parts = {{}};
  plan.parts.front().steps = 3;
  plan.parts.front().cells = {cell};
  return plan;
}

plan::Cell cell_with(const std::function<void(plan::Cell&)>& change) {
  plan::Cell cell;
  cell.topology = "1x2";
  cell.model = "bert_mini";
  change(cell);
  return cell;
}

std::string refusal(const plan::Plan& plan, const PlanUse& use = {}) {
  return gradsync::test::message_of<ConfigError>([&] { validate_plan(plan, use); });
}

std::string refusal_of(const std::function<void(plan::Cell&)>& change, const PlanUse& use = {}) {
  return refusal(plan_of(cell_with(change)), use);
}

TEST(ValidatePlan, WhatCanRunPasses) {
  EXPECT_EQ(refusal_of([](plan::Cell&) {}), "");
  EXPECT_EQ(refusal_of([](plan::Cell& cell) {
              cell.model = "paced_bert_base_t4";
              cell.scale = 50;
            }),
            "");
  EXPECT_EQ(refusal_of([](plan::Cell& cell) { cell.sequence_length = 512; }), "");
}

TEST(ValidatePlan, NamesMustBeKnown) {
  EXPECT_THAT(refusal_of([](plan::Cell& cell) { cell.topology = "9x"; }),
              HasSubstr("p.json: field 'cells.topology'"));
  EXPECT_THAT(refusal_of([](plan::Cell& cell) { cell.model = "no_such_profile.json"; }),
              HasSubstr("p.json: field 'cells.model'"));
}

TEST(ValidatePlan, APacedModelWaitsAndHasNoValues) {
  const auto paced = [](plan::Cell& cell) { cell.model = "paced_bert_base_t4"; };
  EXPECT_EQ(
      refusal_of([](plan::Cell& cell) { cell.scale = 2; }),
      "p.json: field 'cells.scale': got 2 for model 'bert_mini', expected 1: only the bytes of "
      "a paced model can be scaled");
  EXPECT_EQ(refusal_of([&](plan::Cell& cell) {
              paced(cell);
              cell.fused_optimizer = false;
            }),
            "p.json: field 'cells.fused_optimizer': got false for model 'paced_bert_base_t4', "
            "expected true: a paced model has its optimizer's time in its profile");
  EXPECT_THAT(refusal_of(paced, {.has_weights = true}), HasSubstr("with --weights"));
}

TEST(ValidatePlan, OnlyAMixtralHasItsOptions) {
  EXPECT_THAT(refusal_of([](plan::Cell& cell) {
                cell.model = "convnet";
                cell.dtype = "bfloat16";
              }),
              HasSubstr("'cells.dtype': got \"bfloat16\" for model 'convnet'"));
  EXPECT_THAT(refusal_of([](plan::Cell& cell) { cell.balanced_routing = true; }),
              HasSubstr("'cells.balanced_routing'"));
  plan::Plan plan = plan_of(cell_with([](plan::Cell& cell) { cell.model = "mixtral_tiny"; }));
  plan.fold_from_bytes = 1 << 20;
  EXPECT_EQ(refusal(plan), "");
  EXPECT_THAT(refusal(plan, {.has_weights = true}), HasSubstr("folded tensors hold garbage"));
  plan.fold_from_bytes = 1;
  EXPECT_THAT(refusal(plan), HasSubstr("must not be garbage"));
  plan.parts.front().cells.front().model = "mlp";
  EXPECT_THAT(refusal(plan), HasSubstr("only a Mixtral can do without values"));
}

TEST(ValidatePlan, ExamplesMustFitTheModel) {
  EXPECT_EQ(refusal_of([](plan::Cell& cell) { cell.sequence_length = 513; }),
            "p.json: field 'cells.sequence_length': got 513 for model 'bert_mini', expected at "
            "most 512");
  EXPECT_THAT(refusal_of([](plan::Cell& cell) {
                cell.model = "convnet";
                cell.lengths = "mrpc";
              }),
              HasSubstr("'cells.lengths'"));
}

TEST(ValidatePlan, OnlyUnitsThatMayRunTwiceAreCheckpointed) {
  const auto every = [](const char* model, int number) {
    return [=](plan::Cell& cell) {
      cell.model = model;
      cell.activation_checkpointing = number;
    };
  };
  for (const char* model : {"mlp", "bert_mini", "mixtral_tiny", "paced_bert_base_t4"}) {
    EXPECT_EQ(refusal_of(every(model, 1)), "") << model;
    EXPECT_EQ(refusal_of(every(model, 2)), "") << model;
  }
  EXPECT_EQ(
      refusal_of(every("bert_mini", 5)),
      "p.json: field 'cells.activation_checkpointing': got \"every_5\" for model 'bert_mini', "
      "expected at most \"every_4\": it has so many units");
  for (const char* model : {"convnet", "branching"}) {
    EXPECT_THAT(refusal_of(every(model, 1)),
                HasSubstr("expected \"none\": it has no units that can run again in backward"));
  }
}

// One layer, and what it held.
constexpr const char* kRecorded = R"({
  "schema": "gradsync.profile/1", "name": "small", "about": "a test", "source": "by hand",
  "layers": [{"name": "a", "forward_s": 0.01, "backward_s": 0.02,
              "parameters": [{"name": "a.weight", "shape": [4]}]}],
  "optimizer_s": 0, "dtype": "float32", "buffers": [],
  "memory": {"recorded_on": "cpu", "dtype": "float32", "batch_bytes": 0, "buffers_bytes": [],
             "parameters": [{"name": "a.weight", "shape": [4], "trains": true}],
             "modules": [{"name": "", "class": "Model", "saved_bytes": 8, "output_bytes": 8,
                          "forward_high_bytes": 8, "backward_high_bytes": 16}],
             "units": [], "forward": [["hold", 8, 8]],
             "backward_first": [["hold", 16, 16], ["gradient", 0, 16], ["hold", 0, -8]],
             "backward_later": [["hold", 16, 0], ["gradient", 0, 16], ["hold", 0, -8]]}})";

TEST(ValidatePlan, WhatWasRecordedIsNotHeldByCheckpointedLayers) {
  const gradsync::test::TemporaryFolder folder;
  plan::Cell cell = cell_with([](plan::Cell&) {});
  cell.model = folder.write("small.json", kRecorded);
  EXPECT_EQ(refusal(plan_of(cell)), "");
  cell.activation_checkpointing = 1;
  EXPECT_THAT(refusal(plan_of(cell)),
              HasSubstr("'cells.activation_checkpointing': got \"full\" for model '" + cell.model +
                        "', expected \"none\": at scale 1 a profile holds what was recorded"));
  cell.scale = 2;
  EXPECT_EQ(refusal(plan_of(cell)), "");
  cell.selective_checkpointing = "matmul";
  EXPECT_THAT(refusal(plan_of(cell)),
              HasSubstr("'cells.selective_checkpointing': got \"matmul\" for model '" + cell.model +
                        "', expected \"none\": a paced layer that runs again takes the time of its "
                        "whole forward"));
}

TEST(ValidatePlan, OnlyUnitsThatThereAreAreFrozen) {
  const auto freeze = [](const char* model, int number) {
    return [=](plan::Cell& cell) {
      cell.model = model;
      cell.frozen_units = number;
    };
  };
  EXPECT_EQ(refusal_of(freeze("bert_mini", 4)), "");
  EXPECT_EQ(refusal_of(freeze("bert_mini", 5)),
            "p.json: field 'cells.frozen_units': got 5 for model 'bert_mini', expected at most 4: "
            "it has so many units");
  EXPECT_THAT(refusal_of(freeze("paced_bert_base_t4", 1)),
              HasSubstr("expected 0: its units cannot be frozen"));
}

TEST(ValidatePlan, OnlyABertHasLowRankUpdatesAndNoneWiderThanItself) {
  const auto update = [](const char* model, int rank) {
    return [=](plan::Cell& cell) {
      cell.model = model;
      cell.lora_rank = rank;
    };
  };
  EXPECT_EQ(refusal_of(update("bert_mini", 256)), "");
  EXPECT_EQ(refusal_of(update("bert_mini", 257)),
            "p.json: field 'cells.lora_rank': got 257 for model 'bert_mini', expected at most 256: "
            "it is so wide");
  for (const char* model : {"mlp", "mixtral_tiny", "paced_bert_base_t4"}) {
    EXPECT_THAT(refusal_of(update(model, 1)),
                HasSubstr("expected 0: only a BERT has low-rank updates"));
  }
}

TEST(ValidatePlan, OnlyABertAttendsInBothWays) {
  const auto attend = [](const char* model) {
    return [=](plan::Cell& cell) {
      cell.model = model;
      cell.attention = "sdpa";
    };
  };
  EXPECT_EQ(refusal_of(attend("bert_mini")), "");
  for (const char* model : {"mlp", "mixtral_tiny", "paced_bert_base_t4"}) {
    EXPECT_THAT(refusal_of(attend(model)),
                HasSubstr("'cells.attention': got \"sdpa\" for model '" + std::string(model) +
                          "', expected \"eager\": only a BERT attends in both ways"));
  }
}

TEST(ValidatePlan, APacedModelOffloadsNothing) {
  const auto offload = [](const char* model) {
    return [=](plan::Cell& cell) {
      cell.model = model;
      cell.offload = "optimizer_state";
    };
  };
  EXPECT_EQ(refusal_of(offload("mlp")), "");
  EXPECT_THAT(refusal_of(offload("paced_bert_base_t4")),
              HasSubstr("'cells.offload': got \"optimizer_state\" for model"));
}

TEST(ValidatePlan, APacedModelsOptimizerStepsAfterBackward) {
  const auto step_in_backward = [](const char* model) {
    return [=](plan::Cell& cell) {
      cell.model = model;
      cell.wrapper = "fsdp";
      cell.optimizer_in_backward = true;
    };
  };
  EXPECT_EQ(refusal_of(step_in_backward("mlp")), "");
  EXPECT_THAT(refusal_of(step_in_backward("paced_bert_base_t4")),
              HasSubstr("'cells.optimizer_in_backward': got true"));
}

TEST(ValidatePlan, APacedModelRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal_of([](plan::Cell& cell) {
              cell.model = "paced_bert_base_t4";
              cell.sync_batch_norm = true;
            }),
            "p.json: field 'cells.sync_batch_norm': got true for model 'paced_bert_base_t4', "
            "expected false: a paced model does not re-enact it");
}

TEST(ValidatePlan, TheUseDecidesToo) {
  plan::Plan plan = plan_of(cell_with([](plan::Cell&) {}));
  plan.window_rule = "as_published";
  EXPECT_EQ(refusal(plan), "");
  EXPECT_THAT(refusal(plan, {.takes_turns = true}), HasSubstr("'window_rule'"));
  plan.parts.front().steps = 2;
  EXPECT_THAT(refusal(plan), HasSubstr("at least 3"));
  plan = plan_of(cell_with([](plan::Cell&) {}));
  plan.backend = "fake";
  EXPECT_EQ(refusal(plan), "");
  EXPECT_THAT(refusal(plan, {.launcher = "srun"}), HasSubstr("\"fake\" under srun"));
}

}  // namespace
}  // namespace gradsync::session
