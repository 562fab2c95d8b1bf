// Covers: safetensors_file.cpp, safetensors_read.cpp.
#include "models/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "models/bert.h"
#include "models/safetensors_file.h"
#include "tests/models/stored_tensors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using test::bytes_of;
using test::file_of;
using test::StoredTensors;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

BertConfig small_bert() {
  return {
      .layers = 1, .hidden = 8, .heads = 2, .intermediate = 16, .vocabulary = 20, .positions = 4};
}

// Every parameter of a BERT, under the name that `rename` makes of its own ("": left out).
template <typename Rename>
StoredTensors checkpoint_of(const BertForSequenceClassification& model, Rename rename) {
  StoredTensors checkpoint;
  for (const auto& item : model.named_parameters()) {
    const std::string name = rename(item.key());
    if (!name.empty()) checkpoint.add(name, item.value());
  }
  return checkpoint;
}
std::string same_name(const std::string& name) {
  return name;
}

std::string renamed(std::string name, const std::string& from, const std::string& to) {
  const std::size_t place = name.find(from);
  return place == std::string::npos ? name : name.replace(place, from.size(), to);
}

class LoadSafetensors : public testing::Test {
 protected:
  LoadReport load(const StoredTensors& checkpoint) {
    return load_safetensors(folder_.write("model.safetensors", checkpoint.text()), model_);
  }
  std::string complaint(const StoredTensors& checkpoint) {
    return test::message_of<ConfigError>([&] { load(checkpoint); });
  }
  void expect_loaded(const std::vector<std::string>& but = {}) {
    const auto theirs = source_.named_parameters();
    for (const auto& item : model_.named_parameters()) {
      if (std::find(but.begin(), but.end(), item.key()) != but.end()) continue;
      EXPECT_TRUE(item.value().equal(theirs[item.key()])) << item.key();
    }
  }

  test::TemporaryFolder folder_;
  BertForSequenceClassification source_{small_bert(), 1, at::kCPU};
  BertForSequenceClassification model_{small_bert(), 2, at::kCPU};
};

TEST_F(LoadSafetensors, TakesEveryParameter) {
  const LoadReport report = load(checkpoint_of(source_, same_name));
  expect_loaded();
  EXPECT_THAT(report.initialised, IsEmpty());
  EXPECT_THAT(report.unused, IsEmpty());
  EXPECT_TRUE(model_.parameters()[0].requires_grad());
}

TEST_F(LoadSafetensors, APretrainedCheckpointKeepsTheClassifierAtRandomAndIgnoresItsHeads) {
  StoredTensors checkpoint = checkpoint_of(source_, [](const std::string& name) {
    if (name.starts_with("classifier.")) return std::string();
    return renamed(renamed(name, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias",
                   "LayerNorm.beta");
  });
  checkpoint.add("cls.predictions.bias", at::zeros({20}));
  checkpoint.add("bert.embeddings.position_ids", at::arange(4, at::kLong).unsqueeze(0), "I64");
  const at::Tensor before = model_.named_parameters()["classifier.weight"].clone();
  const LoadReport report = load(checkpoint);
  expect_loaded({"classifier.weight", "classifier.bias"});
  EXPECT_TRUE(model_.named_parameters()["classifier.weight"].equal(before));
  EXPECT_THAT(report.initialised, UnorderedElementsAre("classifier.weight", "classifier.bias"));
  EXPECT_THAT(report.unused,
              UnorderedElementsAre("cls.predictions.bias", "bert.embeddings.position_ids"));
}

TEST_F(LoadSafetensors, ABareEncodersNamesLackThePrefixAndMayLackThePooler) {
  const LoadReport report = load(checkpoint_of(source_, [](const std::string& name) {
    if (name.starts_with("classifier.") || name.starts_with("bert.pooler.")) return std::string();
    return name.substr(5);
  }));
  EXPECT_THAT(report.initialised,
              UnorderedElementsAre("classifier.weight", "classifier.bias",
                                   "bert.pooler.dense.weight", "bert.pooler.dense.bias"));
  expect_loaded(report.initialised);
}

TEST_F(LoadSafetensors, ConvertsHalfPrecision) {
  const auto load_as = [&](at::ScalarType type, const std::string& dtype) {
    StoredTensors checkpoint;
    for (const auto& item : source_.named_parameters()) {
      checkpoint.add(item.key(), item.value().to(type), dtype);
    }
    load(checkpoint);
    const at::Tensor loaded = model_.parameters()[0];
    EXPECT_EQ(loaded.scalar_type(), at::kFloat);
    EXPECT_TRUE(loaded.equal(source_.parameters()[0].to(type).to(at::kFloat)));
  };
  load_as(at::kHalf, "F16");
  load_as(at::kBFloat16, "BF16");
}

TEST_F(LoadSafetensors, AMissingTensorIsNamed) {
  EXPECT_THAT(
      complaint(checkpoint_of(
          source_,
          [](const std::string& name) { return name.ends_with("query.bias") ? "" : name; })),
      AllOf(HasSubstr(folder_.file("model.safetensors")),
            HasSubstr("'bert.encoder.layer.0.attention.self.query.bias': got no such tensor")));
}

TEST_F(LoadSafetensors, AnUnexpectedTensorIsNamed) {
  StoredTensors checkpoint = checkpoint_of(source_, same_name);
  checkpoint.add("bert.encoder.layer.1.output.dense.bias", at::zeros({8}));
  EXPECT_THAT(complaint(checkpoint),
              HasSubstr("'bert.encoder.layer.1.output.dense.bias': got an unexpected tensor"));
}

TEST_F(LoadSafetensors, ATensorThereTwiceIsNamed) {
  StoredTensors checkpoint = checkpoint_of(source_, same_name);
  checkpoint.add("pooler.dense.bias", at::zeros({8}));
  EXPECT_THAT(complaint(checkpoint), HasSubstr("a second tensor for bert.pooler.dense.bias"));
}

TEST_F(LoadSafetensors, AnotherShapeIsNamedWithBoth) {
  StoredTensors checkpoint = checkpoint_of(
      source_, [](const std::string& name) { return name == "classifier.bias" ? "" : name; });
  checkpoint.add("classifier.bias", at::zeros({3}));
  EXPECT_THAT(complaint(checkpoint), HasSubstr("'classifier.bias': got shape [3], expected [2]"));
}

TEST_F(LoadSafetensors, AnotherTypeIsNamed) {
  StoredTensors checkpoint = checkpoint_of(
      source_, [](const std::string& name) { return name == "classifier.bias" ? "" : name; });
  checkpoint.add("classifier.bias", at::zeros({2}, at::kDouble), "F64");
  EXPECT_THAT(complaint(checkpoint),
              HasSubstr("'classifier.bias': got F64, expected F32, F16 or BF16"));
}

TEST(SafetensorsFile, ReadsTensorsAtAnyOffsetAndAllowsHoles) {
  const test::TemporaryFolder folder;
  const at::Tensor values = at::arange(6, at::kFloat).reshape({2, 3});
  const std::string path = folder.write(
      "holes.safetensors", file_of(R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[3,27]},)"
                                   R"("none":{"dtype":"F32","shape":[0],"data_offsets":[5,5]}})",
                                   "abc" + bytes_of(values) + "hole"));
  const SafetensorsFile file(path);
  EXPECT_TRUE(file.read("x").equal(values));
  EXPECT_EQ(file.read("none").numel(), 0);
}

struct BadFile {
  std::string name;
  std::string text;
  std::string message;
};

class BadSafetensors : public testing::TestWithParam<BadFile> {};

TEST_P(BadSafetensors, IsRefusedSayingWhatIsWrong) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("bad.safetensors", GetParam().text);
  EXPECT_THAT(test::message_of<ConfigError>([&] { SafetensorsFile file(path); }),
              AllOf(HasSubstr(path), HasSubstr(GetParam().message)));
}

std::string one(const std::string& fields, std::size_t data_bytes = 8) {
  return file_of("{\"x\":{" + fields + "}}", std::string(data_bytes, 'd'));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadSafetensors,
    testing::Values(
        BadFile{"empty", "", "a file of 0 bytes"},
        BadFile{"shorter_than_its_length", "1234", "a file of 4 bytes"},
        BadFile{"truncated_in_the_header", file_of(R"({"x":{}})", "").substr(0, 12),
                "'header length': got 8, expected at most 4"},
        BadFile{"no_safetensors", std::string(64, '#'), "truncated, or no safetensors file"},
        BadFile{"no_json", file_of("{\"x\":", "data"), "'header': got no JSON object"},
        BadFile{"no_object", file_of("[]", "data"), "'header': got no JSON object"},
        BadFile{"truncated_in_the_data",
                one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 7),
                "'x.data_offsets': got [0,8], expected [begin, end] within the file's 7 bytes"},
        BadFile{"ends_before_it_begins", one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
                "'x.data_offsets': got [8,0]"},
        BadFile{"negative_offset", one(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"),
                "'x.data_offsets'"},
        BadFile{"one_offset", one(R"("dtype":"F32","shape":[2],"data_offsets":[0])"),
                "'x.data_offsets'"},
        BadFile{"size_does_not_fit_shape", one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
                "'x.data_offsets': got [0,8], expected 12 bytes"},
        BadFile{"size_overflows",
                one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])"),
                "'x.shape'"},
        BadFile{"unknown_dtype", one(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"),
                "'x.dtype': got \"F33\""},
        BadFile{"no_shape", one(R"("dtype":"F32","data_offsets":[0,8])"), "'x.shape': got nothing"},
        BadFile{"fractional_shape", one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"),
                "'x.shape'"},
        BadFile{"unknown_field", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"zip":1)"),
                "'x.zip': got an unknown field"},
        BadFile{
            "overlap",
            file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("y":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                    std::string(12, 'd')),
            "'y.data_offsets': got begin 4, expected at least 8, where 'x' ends: they overlap"}),
    [](const auto& info) { return info.param.name; });

TEST(SafetensorsFile, AMissingFileOrAFolderIsRefused) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(test::message_of<ConfigError>([&] { SafetensorsFile file(folder.file("absent")); }),
              HasSubstr("absent: cannot be read"));
  EXPECT_THROW(SafetensorsFile file(folder.file(".")), ConfigError);
}

}  // namespace
}  // namespace gradsync::models
