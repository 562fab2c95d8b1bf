// Checkpoints of one file and of several, and indices that do not fit their files.
#include "models/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "models/bert.h"
#include "models/safetensors.h"
#include "tests/models/stored_tensors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using nlohmann::json;
using test::StoredTensors;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

std::string index_of(const WeightMap& weight_map) {
  return json{{"metadata", {{"total_size", 8}}}, {"weight_map", weight_map}}.dump();
}

BertForSequenceClassification bert(std::uint64_t seed) {
  return {
      {.layers = 1, .hidden = 8, .heads = 2, .intermediate = 16, .vocabulary = 20, .positions = 4},
      seed,
      at::kCPU};
}

// Every second parameter in the second file.
void write_shards(const test::TemporaryFolder& folder, const torch::nn::Module& model) {
  std::map<std::string, StoredTensors> shards;
  WeightMap weight_map;
  for (const auto& item : model.named_parameters()) {
    const std::string shard = weight_map.size() % 2 == 0 ? kFirst : kSecond;
    shards[shard].add(item.key(), item.value());
    weight_map[item.key()] = shard;
  }
  for (const auto& [name, tensors] : shards) folder.write(name, tensors.text());
  folder.write(kIndex, index_of(weight_map));
}

void expect_same(const torch::nn::Module& seen, const torch::nn::Module& wanted) {
  const auto values = wanted.named_parameters();
  for (const auto& item : seen.named_parameters()) {
    EXPECT_TRUE(item.value().equal(values[item.key()])) << item.key();
  }
}

TEST(Checkpoint, OfSeveralFilesIsReadByItsIndexAndByItsFolder) {
  const test::TemporaryFolder folder;
  const BertForSequenceClassification source = bert(1);
  write_shards(folder, source);
  for (const std::string& path : {folder.file(kIndex), folder.file("")}) {
    BertForSequenceClassification model = bert(2);
    const LoadReport report = load_safetensors(path, model);
    expect_same(model, source);
    EXPECT_TRUE(report.initialised.empty());
    EXPECT_TRUE(report.unused.empty());
  }
}

TEST(Checkpoint, OfOneFileIsReadByItsFolderWhateverIsBesideIt) {
  const test::TemporaryFolder folder;
  write_shards(folder, bert(3));
  const BertForSequenceClassification source = bert(1);
  StoredTensors whole;
  for (const auto& item : source.named_parameters()) whole.add(item.key(), item.value());
  folder.write("model.safetensors", whole.text());
  BertForSequenceClassification model = bert(2);
  load_safetensors(folder.file(""), model);
  expect_same(model, source);
}

TEST(Checkpoint, AFolderWithoutOneIsRefused) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(
      test::message_of<ConfigError>([&] { Checkpoint(folder.file("")); }),
      folder.file("") + ": field 'model.safetensors': got no such file, expected it, or " + kIndex);
}

TEST(Checkpoint, WhatATensorIsNotIsSaidOfItsOwnFile) {
  const test::TemporaryFolder folder;
  BertForSequenceClassification source = bert(1);
  source.named_parameters()["classifier.bias"].set_data(at::zeros({3}));
  write_shards(folder, source);
  BertForSequenceClassification model = bert(2);
  EXPECT_THAT(test::message_of<ConfigError>([&] { load_safetensors(folder.file(""), model); }),
              AllOf(HasSubstr("-of-00002.safetensors"),
                    HasSubstr("'classifier.bias': got shape [3], expected [2]")));
}

struct Disagreement {
  std::string name;
  WeightMap weight_map;
  std::string file;  // that the message names
  std::string message;
};

// The first file has tensors x and both, the second y and, where `twice`, both.
void write_small_shards(const test::TemporaryFolder& folder, bool twice) {
  StoredTensors first;
  StoredTensors second;
  first.add("x", at::zeros({1}));
  second.add("y", at::zeros({1}));
  first.add("both", at::zeros({1}));
  if (twice) second.add("both", at::zeros({1}));
  folder.write(kFirst, first.text());
  folder.write(kSecond, second.text());
}

std::string complaint(const test::TemporaryFolder& folder, const WeightMap& weight_map) {
  folder.write(kIndex, index_of(weight_map));
  return test::message_of<ConfigError>([&] { Checkpoint(folder.file(kIndex)); });
}

class IndexAndFiles : public testing::TestWithParam<Disagreement> {};

TEST_P(IndexAndFiles, ThatDisagreeAreRefusedSayingWhere) {
  const test::TemporaryFolder folder;
  write_small_shards(folder, false);
  EXPECT_THAT(complaint(folder, GetParam().weight_map),
              StartsWith(folder.file(GetParam().file) + ": field " + GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoint, IndexAndFiles,
    testing::Values(
        Disagreement{"no_file",
                     {{"x", kFirst}, {"both", kFirst}, {"y", "model-3.safetensors"}},
                     kIndex,
                     R"('weight_map.y': got "model-3.safetensors", expected a file beside the )"
                     "index: there is none of this name"},
        Disagreement{"a_tensor_in_no_file",
                     {{"x", kFirst}, {"both", kFirst}, {"y", kSecond}, {"z", kFirst}},
                     kIndex,
                     R"('weight_map.z': got "model-00001-of-00002.safetensors", expected a file )"
                     "with this tensor: none of those listed has it"},
        Disagreement{"a_tensor_in_another_file",
                     {{"x", kFirst}, {"both", kSecond}, {"y", kSecond}},
                     kIndex,
                     R"('weight_map.both': got "model-00002-of-00002.safetensors", expected )"
                     R"("model-00001-of-00002.safetensors", which has it)"},
        Disagreement{"a_tensor_that_is_not_listed",
                     {{"x", kFirst}, {"y", kSecond}},
                     kFirst,
                     "'both': got a tensor that the index does not list, expected only those of "}),
    [](const auto& info) { return info.param.name; });

TEST(Checkpoint, ATensorInTwoFilesIsRefused) {
  const test::TemporaryFolder folder;
  write_small_shards(folder, true);
  EXPECT_EQ(complaint(folder, {{"x", kFirst}, {"both", kFirst}, {"y", kSecond}}),
            folder.file(kSecond) +
                ": field 'both': got a second tensor of this name, expected "
                "only that of model-00001-of-00002.safetensors");
}

}  // namespace
}  // namespace gradsync::models
