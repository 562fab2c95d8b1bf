// What a plan may say of its cells, and what becomes of it.
// Covers: axis_kinds.cpp, model_options.cpp, options.cpp.
#include "harness/plan/cell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/plan/samples.h"

namespace gradsync::plan {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string complaint_about_axis(const char* axis, const json& values) {
  json plan = sample_plan();
  plan["cells"][axis] = values;
  return complaint(plan);
}

TEST(Cells, ListsMultiplyOutWithStrategyFastest) {
  const auto cells = parse_plan(sample_plan(), "p.json").parts.at(0).cells;
  ASSERT_EQ(cells.size(), 8U);
  EXPECT_EQ(cells[0].topology, "1x2");
  EXPECT_EQ(cells[3].topology, "1x2");
  EXPECT_EQ(cells[4].topology, "2x1");
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const char* order[] = {"baseline", "no_sync_improper", "no_sync", "accumulate"};
    EXPECT_EQ(cells[i].strategy, order[i % 4]);
    EXPECT_EQ(cells[i].model, "mlp");
  }
}

// The cell of a plan whose axes have one value each, which must also survive a results file.
Cell only_cell(const json& axes) {
  json plan = sample_plan();
  plan["cells"] = axes;
  const auto cells = parse_plan(plan, "p.json").parts.at(0).cells;
  EXPECT_EQ(cells.size(), 1U);
  EXPECT_EQ(cell_from_json(json(cells[0]), "r.json"), cells[0]);
  return cells[0];
}

TEST(Cells, EveryAxisOfDdpReachesItsField) {
  const json axes{{"topology", {"4x8"}},
                  {"model", {"bert_base"}},
                  {"wrapper", {"ddp"}},
                  {"strategy", {"no_sync"}},
                  {"accumulation_steps", {2}},
                  {"micro_batch_size", {3}},
                  {"sequence_length", {7}},
                  {"lengths", {"mrpc"}},
                  {"bucket_cap_bytes", {"25MiB"}},
                  {"gradient_as_bucket_view", {true}},
                  {"find_unused_parameters", {true}},
                  {"static_graph", {true}},
                  {"broadcast_buffers", {false}},
                  {"sync_batch_norm", {true}},
                  {"class_skew", {true}},
                  {"scale", {50}},
                  {"memory_budget_bytes", {"1GiB"}},
                  {"dtype", {"bfloat16"}},
                  {"balanced_routing", {true}},
                  {"activation_checkpointing", {"every_3"}},
                  {"selective_checkpointing", {"matmul"}},
                  {"lora_rank", {8}},
                  {"lora_modules", {"all_linear"}},
                  {"attention", {"sdpa"}},
                  {"offload", {"optimizer_state"}},
                  {"fused_optimizer", {false}}};
  Cell expected{"4x8",  "bert_base", "ddp", "no_sync", 2,    3, 7,
                "mrpc", 25 << 20,    true,  true,      true, 50};
  expected.memory_budget_bytes = 1 << 30;
  expected.dtype = "bfloat16";
  expected.balanced_routing = true;
  expected.activation_checkpointing = 3;
  expected.selective_checkpointing = "matmul";
  expected.lora_rank = 8;
  expected.lora_modules = "all_linear";
  expected.attention = "sdpa";
  expected.offload = "optimizer_state";
  expected.fused_optimizer = false;
  expected.broadcast_buffers = false;
  expected.sync_batch_norm = true;
  expected.class_skew = true;
  const Cell cell = only_cell(axes);
  EXPECT_EQ(cell, expected);
  const json written = cell;
  for (const auto& [name, list] : axes.items()) EXPECT_TRUE(written.contains(name)) << name;
}

TEST(Cells, AreWrittenWhole) {
  const json ddp = Cell{};
  const json fsdp = Cell{.wrapper = "fsdp"};
  for (const Axis& axis : axes()) {
    EXPECT_EQ(ddp.contains(axis.name), axis.wrapper != "fsdp" && !axis.is_written_if_any);
    EXPECT_EQ(fsdp.contains(axis.name), !axis.is_written_if_any) << axis.name;
  }
  EXPECT_EQ(cell_from_json(ddp, "r.json"), Cell{});
}

// As the first results have it, which were before most of the options.
TEST(Cells, WhatOlderFilesLeftOutHasItsDefault) {
  Cell cell;
  cell.wrapper = "fsdp";
  cell.prefetch = false;
  json older = cell;
  for (const char* name : {"dtype", "offload", "lora_rank", "optimizer_in_backward"}) {
    older.erase(name);
  }
  EXPECT_EQ(whole_cell(older), json(cell));
  EXPECT_EQ(cell_from_json(older, "r.json"), cell);
  EXPECT_EQ(whole_cell(cell), json(cell));
  const json newer = json(cell).patch({{{"op", "add"}, {"path", "/added_since"}, {"value", 3}}});
  EXPECT_EQ(whole_cell(newer), newer);
  EXPECT_EQ(whole_cell({{"job", "optimizer step"}}).size(), 1U);
}

TEST(Cells, SyncBatchNormIsDdpsAlone) {
  json plan = sample_plan();
  plan["cells"] = {{"wrapper", {"fsdp"}}, {"sync_batch_norm", {false, true}}};
  EXPECT_EQ(complaint(plan),
            "p.json: field 'cells.sync_batch_norm': got true, expected false under wrapper fsdp");
}

TEST(Cells, EveryAxisOfFsdpReachesItsField) {
  const json axes{{"wrapper", {"fsdp"}},
                  {"strategy", {"sync_each_batch"}},
                  {"reshard_after_forward", {false}},
                  {"reshard_after_backward", {false}},
                  {"param_dtype", {"bfloat16"}},
                  {"reduce_dtype", {"bfloat16"}},
                  {"gradient_dtype", {"param"}},
                  {"prefetch", {false}},
                  {"hybrid_shard", {true}}};
  Cell expected;
  expected.wrapper = "fsdp";
  expected.strategy = "sync_each_batch";
  expected.reshard_after_forward = false;
  expected.reshard_after_backward = false;
  expected.param_dtype = "bfloat16";
  expected.reduce_dtype = "bfloat16";
  expected.gradient_dtype = "param";
  expected.prefetch = false;
  expected.hybrid_shard = true;
  EXPECT_EQ(only_cell(axes), expected);
}

TEST(Cells, FsdpGathersAndReducesAsParametersAreStored) {
  const Cell stored = only_cell({{"wrapper", {"fsdp"}}, {"dtype", {"bfloat16"}}});
  EXPECT_EQ(stored.param_dtype, "bfloat16");
  EXPECT_EQ(stored.reduce_dtype, "bfloat16");
  const Cell mixed =
      only_cell({{"wrapper", {"fsdp"}}, {"dtype", {"bfloat16"}}, {"reduce_dtype", {"float32"}}});
  EXPECT_EQ(mixed.param_dtype, "bfloat16");
  EXPECT_EQ(mixed.reduce_dtype, "float32");
  EXPECT_EQ(only_cell({{"wrapper", {"fsdp"}}}).param_dtype, "float32");
}

TEST(Cells, GradientsOfFourBytesMayBeCompressed) {
  const Cell cell = only_cell({{"compression", {"bf16"}}});
  EXPECT_EQ(cell.compression, "bf16");
  EXPECT_EQ(only_cell({{"wrapper", {"fsdp"}}, {"compression", {"fp16"}}}).compression, "none");
  EXPECT_EQ(complaint_about_axis("compression", {"fp8"}),
            "p.json: field 'cells.compression': got \"fp8\", expected one of none, fp16, bf16");
  json plan = sample_plan();
  plan["cells"].update({{"dtype", {"bfloat16"}}, {"compression", {"none", "fp16"}}});
  EXPECT_EQ(complaint(plan),
            "p.json: field 'cells.compression': got \"fp16\", expected none where dtype is "
            "bfloat16, which has 2 bytes already");
}

TEST(Cells, CheckpointsNoUnitAllOrEachNth) {
  for (const auto& [words, number] :
       {std::pair{"none", 0}, {"full", 1}, {"every_2", 2}, {"every_12", 12}}) {
    for (const char* wrapper : {"ddp", "fsdp", "local"}) {
      const Cell cell = only_cell({{"wrapper", {wrapper}}, {"activation_checkpointing", {words}}});
      EXPECT_EQ(cell.activation_checkpointing, number);
      EXPECT_EQ(json(cell)["activation_checkpointing"], words);
    }
  }
  for (const json& wrong : {json("every"), json("every_1"), json("every_02"), json("every_2x"),
                            json("every_-2"), json("every_"), json("all"), json(2), json(true)}) {
    EXPECT_EQ(complaint_about_axis("activation_checkpointing", json::array({wrong})),
              "p.json: field 'cells.activation_checkpointing': got " + wrong.dump() +
                  ", expected none, full, every_2, every_3 and so on");
  }
}

TEST(Cells, UnitsMayBeFrozenUnderEveryWrapperButAPipeline) {
  for (const char* wrapper : {"ddp", "fsdp", "local", "by_hand"}) {
    const Cell cell = only_cell({{"wrapper", {wrapper}}, {"frozen_units", {3}}});
    EXPECT_EQ(cell.frozen_units, 3);
    EXPECT_FALSE(share_a_workload(cell, only_cell({{"wrapper", {wrapper}}})));
  }
  for (const json& wrong : {json(-1), json("first"), json(1.5)}) {
    EXPECT_EQ(complaint_about_axis("frozen_units", json::array({wrong})),
              "p.json: field 'cells.frozen_units': got " + wrong.dump() +
                  ", expected an integer from 0 to 1000000");
  }
  json plan = sample_plan();
  plan["cells"]["wrapper"] = {"pipeline"};
  plan["cells"]["strategy"] = {"pipelined"};
  plan["cells"]["frozen_units"] = {0, 1};
  EXPECT_THAT(complaint(plan),
              HasSubstr("'cells.frozen_units': got 1, expected 0 under wrapper pipeline"));
}

TEST(Cells, MasterWeightsAreOfDdpsParametersInBfloat16) {
  json plan = sample_plan();
  plan["cells"]["wrapper"] = {"ddp"};
  plan["cells"]["master_weights"] = {true};
  EXPECT_THAT(complaint(plan), HasSubstr("'cells.master_weights': got true, expected false where "
                                         "dtype is float32"));
  plan["cells"]["dtype"] = {"bfloat16"};
  EXPECT_EQ(complaint(plan), "no error");
  plan["cells"]["fused_optimizer"] = {false};
  EXPECT_THAT(complaint(plan), HasSubstr("false where fused_optimizer is false"));
}

TEST(Cells, LowRankUpdatesLeaveNoUnitToFreeze) {
  for (const char* wrapper : {"ddp", "fsdp", "local", "by_hand"}) {
    const Cell cell = only_cell({{"wrapper", {wrapper}}, {"lora_rank", {8}}});
    EXPECT_EQ(cell.lora_rank, 8);
    EXPECT_FALSE(share_a_workload(cell, only_cell({{"wrapper", {wrapper}}})));
  }
  for (const json& wrong : {json(-1), json("8"), json(1.5)}) {
    EXPECT_EQ(complaint_about_axis("lora_rank", json::array({wrong})),
              "p.json: field 'cells.lora_rank': got " + wrong.dump() +
                  ", expected an integer from 0 to 1000000");
  }
  json plan = sample_plan();
  plan["cells"]["lora_rank"] = {0, 4};
  EXPECT_EQ(complaint(plan), "no error");
  plan["cells"]["frozen_units"] = {2};
  EXPECT_THAT(complaint(plan), HasSubstr("'cells.frozen_units': got 2, expected 0 where lora_rank "
                                         "is 4: the weights of every unit are frozen then"));
}

TEST(Cells, OnlyLowRankUpdatesAreBesideModules) {
  json plan = sample_plan();
  plan["cells"]["lora_rank"] = {4};
  plan["cells"]["lora_modules"] = {"query_value", "attention", "all_linear"};
  EXPECT_EQ(complaint(plan), "no error");
  plan["cells"]["lora_rank"] = {0};
  EXPECT_THAT(complaint(plan), HasSubstr("'cells.lora_modules': got \"attention\", expected "
                                         "query_value where lora_rank is 0: there are no updates"));
  EXPECT_EQ(complaint_about_axis("lora_modules", {"key"}),
            "p.json: field 'cells.lora_modules': got \"key\", expected one of query_value, "
            "attention, all_linear");
}

TEST(Cells, OnlyUnitsThatRunAgainKeepOutputs) {
  json plan = sample_plan();
  plan["cells"]["activation_checkpointing"] = {"full"};
  plan["cells"]["selective_checkpointing"] = {"none", "attention", "matmul"};
  EXPECT_EQ(complaint(plan), "no error");
  plan["cells"]["activation_checkpointing"] = {"none"};
  EXPECT_THAT(complaint(plan),
              HasSubstr("'cells.selective_checkpointing': got \"attention\", expected none where "
                        "activation_checkpointing is none: nothing runs again"));
  EXPECT_EQ(complaint_about_axis("selective_checkpointing", {"softmax"}),
            "p.json: field 'cells.selective_checkpointing': got \"softmax\", expected one of none, "
            "attention, matmul");
}

TEST(Cells, OnlyWhatIsShardedOffloadsItsParameters) {
  json plan = sample_plan();
  plan["cells"]["offload"] = {"none", "optimizer_state"};
  EXPECT_EQ(complaint(plan), "no error");
  plan["cells"]["offload"] = {"none", "parameters"};
  EXPECT_THAT(complaint(plan),
              HasSubstr("'cells.offload': got \"parameters\", expected \"none\" or "
                        "\"optimizer_state\" under wrapper ddp, whose parameters are all in use"));
  plan["cells"]["wrapper"] = {"fsdp"};
  EXPECT_EQ(complaint(plan), "no error");
  plan["cells"]["wrapper"] = {"by_hand"};
  plan["cells"]["offload"] = {"optimizer_state"};
  EXPECT_THAT(complaint(plan), HasSubstr("'cells.offload': got \"optimizer_state\", expected "
                                         "\"none\" under wrapper by_hand"));
  EXPECT_EQ(complaint_about_axis("attention", {"flash"}),
            "p.json: field 'cells.attention': got \"flash\", expected one of eager, sdpa");
  EXPECT_EQ(complaint_about_axis("offload", {"disk"}),
            "p.json: field 'cells.offload': got \"disk\", expected one of none, optimizer_state, "
            "parameters");
}

TEST(Cells, AnOptimizerStepsInBackwardWhereAStepReducesOnce) {
  json plan = sample_plan();
  plan["cells"]["wrapper"] = {"fsdp"};
  plan["cells"]["accumulation_steps"] = {4};
  plan["cells"]["optimizer_in_backward"] = {true};
  plan["cells"]["strategy"] = {"no_sync", "accumulate", "no_sync_improper"};
  EXPECT_EQ(complaint(plan), "no error");
  for (const char* strategy : {"baseline", "sync_each_batch"}) {
    plan["cells"]["strategy"] = {strategy};
    plan["cells"]["accumulation_steps"] = {1};
    EXPECT_EQ(complaint(plan), "no error");
    plan["cells"]["accumulation_steps"] = {4};
    EXPECT_THAT(complaint(plan),
                HasSubstr(std::string("'cells.optimizer_in_backward': got true, expected false "
                                      "where strategy ") +
                          strategy + " reduces in each of 4 micro-batches"));
  }
  const Cell ddp = only_cell({{"wrapper", {"ddp"}}, {"optimizer_in_backward", {true}}});
  EXPECT_FALSE(ddp.optimizer_in_backward) << "its buckets hold every gradient to the end";
}

TEST(Cells, OptionsOfTheOtherWrapperMakeNoCells) {
  json plan = sample_plan();
  plan["cells"] = {{"wrapper", {"ddp", "fsdp"}},
                   {"reshard_after_forward", {true, false}},
                   {"static_graph", {false, true}}};
  const auto cells = parse_plan(plan, "p.json").parts.at(0).cells;
  ASSERT_EQ(cells.size(), 4U);  // ddp: two static_graph; fsdp: two reshard_after_forward
  EXPECT_TRUE(cells[1].static_graph);
  EXPECT_TRUE(cells[1].reshard_after_forward);
  EXPECT_FALSE(cells[3].reshard_after_forward);
  EXPECT_FALSE(json(cells[1]).contains("reshard_after_forward"));
}

TEST(Cells, AMemoryBudgetIsBytesOrTextWithAUnit) {
  EXPECT_EQ(only_cell({{"memory_budget_bytes", {12345}}}).memory_budget_bytes, 12345);
  EXPECT_THAT(complaint_about_axis("memory_budget_bytes", {-1}), HasSubstr("a number of bytes"));
  EXPECT_THAT(complaint_about_axis("memory_budget_bytes", {"79"}), HasSubstr("unit"));
}

TEST(Cells, BucketCapIsBytesOrTextWithAUnit) {
  json plan = sample_plan();
  plan["cells"]["bucket_cap_bytes"] = {0, 1000, "25MiB"};
  plan["cells"]["strategy"] = {"baseline"};
  plan["cells"]["topology"] = {"1x2"};
  const auto cells = parse_plan(plan, "p.json").parts.at(0).cells;
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0].bucket_cap_bytes, 0);
  EXPECT_EQ(cells[1].bucket_cap_bytes, 1000);
  EXPECT_EQ(cells[2].bucket_cap_bytes, 26214400);
  EXPECT_THAT(complaint_about_axis("bucket_cap_bytes", {"25"}), HasSubstr("unit"));
  EXPECT_THAT(complaint_about_axis("bucket_cap_bytes", {-1}), HasSubstr("a number of bytes"));
}

TEST(Cells, WrongValuesAreQuotedWithTheRightOnes) {
  EXPECT_EQ(
      complaint_about_axis("strategy", {"nosync"}),
      "p.json: field 'cells.strategy': got \"nosync\", expected one of baseline, "
      "sync_each_batch, no_sync_improper, no_sync, accumulate, pipelined (did you mean no_sync?)");
  EXPECT_EQ(complaint_about_axis("wrapper", {"zero"}),
            "p.json: field 'cells.wrapper': got \"zero\", expected one of ddp, fsdp, local, "
            "by_hand, by_hand_coalesced, pipeline");
  EXPECT_EQ(complaint_about_axis("lengths", {"long"}),
            "p.json: field 'cells.lengths': got \"long\", expected one of fixed, mrpc");
  EXPECT_EQ(complaint_about_axis("model", {""}),
            "p.json: field 'cells.model': got \"\", expected a name");
  EXPECT_EQ(complaint_about_axis("static_graph", {1}),
            "p.json: field 'cells.static_graph': got 1, expected true or false");
}

TEST(Cells, CountsAreWholeAndPositive) {
  for (const char* axis : {"accumulation_steps", "micro_batch_size", "sequence_length", "scale"}) {
    for (const json& wrong : {json(0), json(-4), json(1.5), json("4"), json(), json(1e12),
                              json(18446744073709551615U)}) {
      EXPECT_THAT(complaint_about_axis(axis, json::array({wrong})),
                  HasSubstr(std::string("p.json: field 'cells.") + axis + "': got " + wrong.dump() +
                            ", expected an integer from 1 to 1000000"));
    }
  }
}

TEST(Cells, AxesAreNonEmptyLists) {
  for (const json& wrong : {json::array(), json("mlp"), json::object(), json()}) {
    EXPECT_EQ(complaint_about_axis("model", wrong),
              "p.json: field 'cells.model': got " + wrong.dump() +
                  ", expected a list with at least one value");
  }
}

TEST(Cells, UnknownAxisNamesThoseThereAre) {
  EXPECT_THAT(complaint_about_axis("fruit", {"mlp"}),
              HasSubstr("field 'cells.fruit': got an unknown field, expected one of "
                        "accumulation_steps, activation_checkpointing"));
  EXPECT_THAT(complaint_about_axis("modell", {"mlp"}), HasSubstr("(did you mean model"));
}

TEST(Cells, NoCellTwice) {
  EXPECT_EQ(complaint_about_axis("strategy", {"baseline", "no_sync", "baseline"}),
            "p.json: field 'cells.strategy': got \"baseline\" twice, expected each value once");
  EXPECT_THAT(complaint_about_axis("bucket_cap_bytes", {26214400, "25MiB"}),
              HasSubstr("got \"25MiB\" twice"));
}

TEST(Cells, SyncEachBatchBelongsToFsdp) {
  EXPECT_THAT(complaint_about_axis("strategy", {"sync_each_batch"}),
              HasSubstr("under wrapper ddp"));
  json plan = sample_plan();
  plan["cells"]["strategy"] = {"sync_each_batch"};
  plan["cells"]["wrapper"] = {"fsdp"};
  EXPECT_EQ(complaint(plan), "no error");
  plan["cells"]["wrapper"] = {"fsdp", "ddp"};
  EXPECT_THAT(complaint(plan), HasSubstr("under wrapper ddp"));
}

TEST(Cells, EachOfSeveralWrappersHasTheStrategiesOfItsOwn) {
  json plan = sample_plan();
  plan["cells"]["wrapper"] = {"ddp", "fsdp"};
  plan["cells"]["strategy"] = {"sync_each_batch", "no_sync"};
  std::vector<std::string> pairs;
  const Plan parsed = parse_plan(plan, "p.json");
  for (const Cell& cell : parsed.parts.at(0).cells) {
    const std::string pair = cell.wrapper + " " + cell.strategy;
    if (std::ranges::find(pairs, pair) == pairs.end()) pairs.push_back(pair);
  }
  EXPECT_THAT(pairs, ::testing::ElementsAre("ddp no_sync", "fsdp sync_each_batch", "fsdp no_sync"));
  plan["cells"]["strategy"] = {"no_sync", "pipelined"};
  EXPECT_THAT(complaint(plan), HasSubstr("got \"pipelined\"")) << "of neither";
}

TEST(Cells, WaysThatReduceNothingHaveNoStrategiesThatDecideIt) {
  json plan = sample_plan();
  plan["cells"]["wrapper"] = {"local"};
  plan["cells"]["strategy"] = {"baseline"};
  EXPECT_EQ(complaint(plan), "no error");
  plan["cells"]["strategy"] = {"no_sync"};
  EXPECT_EQ(
      complaint(plan),
      "p.json: field 'cells.strategy': got \"no_sync\", expected baseline under wrapper local");
  plan["cells"]["wrapper"] = {"pipeline"};
  EXPECT_THAT(complaint(plan), HasSubstr("expected baseline, pipelined under wrapper pipeline"));
  plan["cells"]["strategy"] = {"baseline", "pipelined"};
  EXPECT_EQ(complaint(plan), "no error");
  plan["cells"]["wrapper"] = {"by_hand"};
  EXPECT_THAT(complaint(plan), HasSubstr("under wrapper by_hand"));
}

TEST(Cells, StagesTakeMicroBatchesOfOneShapeAndRealPeers) {
  json plan = sample_plan();
  plan["cells"]["wrapper"] = {"pipeline"};
  plan["cells"]["strategy"] = {"baseline"};
  plan["cells"]["lengths"] = {"mrpc"};
  EXPECT_THAT(complaint(plan), HasSubstr("got \"mrpc\", expected fixed under wrapper pipeline"));
  plan["cells"]["lengths"] = {"fixed"};
  plan["backend"] = "fake";
  EXPECT_THAT(complaint(plan), HasSubstr("'backend': got \"fake\""));
}

TEST(Cells, ProductsBeyondReasonAreRefusedAtOnce) {
  json plan = sample_plan();
  for (int i = 1; i <= 200; ++i) {
    for (const char* axis :
         {"accumulation_steps", "micro_batch_size", "sequence_length", "scale"}) {
      plan["cells"][axis].push_back(i);
    }
  }
  EXPECT_THAT(complaint(plan), HasSubstr("at most 1000000 cells"));
}

TEST(CellFromJson, IsStrict) {
  const auto refusal = [](const char* field, const json& value) {
    json cell = Cell{};
    cell[field] = value;
    try {
      cell_from_json(cell, "r.json");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(cell_from_json(json(Cell{}), "r.json"), Cell{});
  EXPECT_EQ(refusal("scale", 0),
            "r.json: field 'cell.scale': got 0, expected an integer from 1 to 1000000");
  EXPECT_THAT(refusal("colour", "red"), HasSubstr("'cell.colour': got an unknown field"));
  EXPECT_THAT(refusal("strategy", "sync_each_batch"), HasSubstr("under wrapper ddp"));
  EXPECT_THROW(cell_from_json(json::array(), "r.json"), ConfigError);
}

}  // namespace
}  // namespace gradsync::plan
