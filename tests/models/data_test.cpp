// Covers: data_file.cpp, pictures.cpp.
#include "models/data.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "harness/base/errors.h"
#include "models/pictures.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::models {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

DataOptions mrpc(int rank, int world_size) {
  DataOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.sequence_length = 128;
  options.varying_lengths = true;
  return options;
}

std::vector<std::int64_t> lengths(const Batch& batch) {
  if (!batch.attention_mask.defined()) {
    return std::vector<std::int64_t>(batch.input_ids.size(0), batch.input_ids.size(1));
  }
  const at::Tensor sums = batch.attention_mask.sum(1);
  return {sums.data_ptr<std::int64_t>(), sums.data_ptr<std::int64_t>() + sums.numel()};
}

// One example a line, example i being {i + 1} repeated i % 5 + 1 times: a row names its example.
std::string numbered_file(const test::TemporaryFolder& folder, int examples) {
  std::string text;
  for (int i = 0; i < examples; ++i) {
    const std::vector<int> ids(static_cast<std::size_t>(i % 5 + 1), i + 1);
    text += fmt::format("{{\"input_ids\": [{}], \"label\": {}}}\n", fmt::join(ids, ","), i % 2);
  }
  return folder.write("examples.jsonl", text);
}

TEST(Data, AnEpochOfMrpcOnTwoRanksHas115MicroBatches) {
  EXPECT_EQ(DataLoader(mrpc(0, 2), 1).batches_per_epoch(), 115);
  EXPECT_EQ(DataLoader(mrpc(0, 1), 1).batches_per_epoch(), 230);
}

TEST(Data, LengthsAreDistributedLikeMrpcs) {
  DataLoader loader(mrpc(0, 1), 229);
  double sum = 0;
  double squares = 0;
  std::int64_t shortest = 1000;
  std::int64_t longest = 0;
  int count = 0;
  for (int i = 0; i < 229; ++i) {
    for (const std::int64_t length : lengths(loader.next())) {
      const auto value = static_cast<double>(length);
      sum += value;
      squares += value * value;
      shortest = std::min(shortest, length);
      longest = std::max(longest, length);
      ++count;
    }
  }
  ASSERT_EQ(count, 3664);
  const double mean = sum / count;
  EXPECT_NEAR(mean, 53, 1);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 13, 1);
  EXPECT_GE(shortest, 20);
  EXPECT_LE(longest, 103);
  EXPECT_LT(shortest, 30);
  EXPECT_GT(longest, 90);
}

TEST(Data, VaryingBatchesArePaddedToTheirLongest) {
  DataLoader loader(mrpc(0, 2), 8);
  for (int i = 0; i < 8; ++i) {
    const Batch& batch = loader.next();
    const auto row_lengths = lengths(batch);
    EXPECT_EQ(*std::max_element(row_lengths.begin(), row_lengths.end()), batch.input_ids.size(1));
    const at::Tensor padding = batch.attention_mask.eq(0);
    EXPECT_TRUE(batch.input_ids.masked_select(padding).eq(0).all().item<bool>());
    EXPECT_TRUE(batch.input_ids.masked_select(padding.logical_not()).gt(0).all().item<bool>());
    // Tokens first, then padding.
    EXPECT_TRUE(batch.attention_mask.diff(1, 1).le(0).all().item<bool>());
  }
}

TEST(Data, VaryingLengthsStopAtTheLongestAllowed) {
  DataOptions options = mrpc(0, 1);
  options.sequence_length = 40;
  DataLoader loader(options, 4);
  for (int i = 0; i < 4; ++i) EXPECT_THAT(lengths(loader.next()), Each(testing::Le(40)));
}

TEST(Data, FixedBatchesHaveOneShapeAndNoMask) {
  DataOptions options;
  options.sequence_length = 24;
  options.micro_batch_size = 4;
  options.vocabulary_size = 500;
  DataLoader loader(options, 3);
  for (int i = 0; i < 3; ++i) {
    const Batch& batch = loader.next();
    EXPECT_EQ(batch.input_ids.sizes(), at::IntArrayRef({4, 24}));
    EXPECT_FALSE(batch.attention_mask.defined());
    EXPECT_TRUE(batch.input_ids.ge(0).logical_and(batch.input_ids.lt(500)).all().item<bool>());
    EXPECT_TRUE(batch.labels.ge(0).logical_and(batch.labels.le(1)).all().item<bool>());
  }
}

TEST(Data, IsTheSameForTheSameSeedAndOtherwiseNot) {
  DataOptions options;
  DataLoader first(options, 2);
  DataLoader second(options, 2);
  EXPECT_TRUE(first.next().input_ids.equal(second.next().input_ids));
  EXPECT_TRUE(first.next().labels.equal(second.next().labels));
  options.seed += 1;
  EXPECT_FALSE(DataLoader(options, 2).next().input_ids.equal(first.next().input_ids));
}

TEST(Data, RepeatsItsBatchesAndRestarts) {
  DataLoader loader(DataOptions{}, 3);
  const at::Tensor first = loader.next().input_ids;
  loader.next();
  loader.next();
  EXPECT_TRUE(loader.next().input_ids.equal(first));
  loader.restart();
  EXPECT_TRUE(loader.next().input_ids.equal(first));
}

TEST(Data, RanksShareAnEpochWithoutOverlapAndTheLastBatchesAreFilledUp) {
  const test::TemporaryFolder folder;
  DataOptions options;
  options.file = numbered_file(folder, 22);
  options.world_size = 2;
  options.micro_batch_size = 4;
  options.sequence_length = 5;
  std::map<std::int64_t, int> seen;
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    DataLoader loader(options, 3);
    ASSERT_EQ(loader.batches_per_epoch(), 3);
    for (int i = 0; i < 3; ++i) {
      const Batch& batch = loader.next();
      ASSERT_EQ(batch.input_ids.size(0), 4);
      for (std::int64_t row = 0; row < 4; ++row)
        ++seen[batch.input_ids[row][0].item<std::int64_t>()];
    }
  }
  // 24 places for 22 examples: all are seen, two of them twice.
  EXPECT_EQ(seen.size(), 22);
  EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](const auto& s) { return s.second == 2; }),
            2);
}

TEST(Data, EpochsAreShuffledAnew) {
  const test::TemporaryFolder folder;
  DataOptions options;
  options.file = numbered_file(folder, 16);
  options.micro_batch_size = 16;
  options.sequence_length = 5;
  DataLoader loader(options, 2);
  const at::Tensor first = loader.next().input_ids.select(1, 0).clone();
  const at::Tensor second = loader.next().input_ids.select(1, 0).clone();
  EXPECT_FALSE(first.equal(second));
  EXPECT_TRUE(std::get<0>(first.sort()).equal(std::get<0>(second.sort())));
}

TEST(Data, AFilesExamplesArePaddedAndCut) {
  const test::TemporaryFolder folder;
  DataOptions options;
  options.file = folder.write("two.jsonl",
                              "{\"input_ids\": [7], \"label\": 1}\n"
                              "{\"input_ids\": [8, 8, 8, 8, 8, 8], \"label\": 0}\n");
  options.micro_batch_size = 2;
  options.sequence_length = 4;
  const Batch batch = DataLoader(options, 1).next();
  const std::int64_t one = batch.input_ids[0][0].item<std::int64_t>() == 7 ? 0 : 1;
  EXPECT_TRUE(batch.input_ids[one].equal(at::tensor({7, 0, 0, 0}, at::kLong)));
  EXPECT_TRUE(batch.attention_mask[one].equal(at::tensor({1, 0, 0, 0}, at::kLong)));
  EXPECT_TRUE(batch.input_ids[1 - one].equal(at::tensor({8, 8, 8, 8}, at::kLong)));
  EXPECT_EQ(batch.labels[one].item<std::int64_t>(), 1);
}

DataOptions skewed_pictures(int rank, int world_size) {
  DataOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.micro_batch_size = 8;
  options.sequence_length = 256;
  options.pictures = true;
  options.class_skew = true;
  return options;
}

std::vector<std::int64_t> labels_of(const Batch& batch) {
  return {batch.labels.data_ptr<std::int64_t>(),
          batch.labels.data_ptr<std::int64_t>() + batch.labels.numel()};
}

TEST(Pictures, EachClassHasItsBrightnessAndContrast) {
  for (int rank = 0; rank < 3; ++rank) {
    const Batch batch = DataLoader(skewed_pictures(rank, 3), 1).next();
    EXPECT_THAT(labels_of(batch), Each(rank));
    const at::Tensor pixels = batch.input_ids.to(at::kDouble);
    const PictureClass& shown = kPictureClasses[static_cast<std::size_t>(rank)];
    // The picture has 2048 pixels; the darkest and brightest are cut off.
    EXPECT_NEAR(pixels.mean().item<double>(), shown.brightness, 5) << shown.name;
    EXPECT_NEAR(pixels.std().item<double>(), shown.contrast, 5) << shown.name;
    EXPECT_GE(pixels.min().item<double>(), 0);
    EXPECT_LT(pixels.max().item<double>(), kPixelLevels);
  }
}

TEST(Pictures, WithoutSkewABatchHasAllClasses) {
  DataOptions options = skewed_pictures(0, 2);
  options.class_skew = false;
  options.micro_batch_size = 64;
  const Batch batch = DataLoader(options, 1).next();
  EXPECT_THAT(labels_of(batch), testing::IsSupersetOf({0, 1, 2}));
}

TEST(Pictures, HaveOneSize) {
  DataOptions options = skewed_pictures(0, 2);
  options.varying_lengths = true;
  EXPECT_THAT(test::message_of<ConfigError>([&] { DataLoader(options, 1); }),
              HasSubstr("lengths: got mrpc for a model that reads pictures, expected fixed"));
}

// Five ranks and two classes: ranks 0, 2 and 4 share the examples with label 0.
TEST(ClassSkew, RanksOfOneClassShareItsExamples) {
  const test::TemporaryFolder folder;
  DataOptions options;
  options.file = numbered_file(folder, 60);
  options.world_size = 5;
  options.micro_batch_size = 4;
  options.sequence_length = 5;
  options.class_skew = true;
  std::map<std::int64_t, int> times_seen;
  for (int rank = 0; rank < 5; ++rank) {
    options.rank = rank;
    DataLoader data(options, 2);
    EXPECT_EQ(data.batches_per_epoch(), 3);  // as without skew: 60 / (5 x 4)
    for (int i = 0; i < 2; ++i) {
      const Batch& batch = data.next();
      EXPECT_THAT(labels_of(batch), Each(rank % 2));
      for (std::int64_t row = 0; row < 4; ++row) {
        ++times_seen[batch.input_ids[row][0].item<std::int64_t>()];
      }
    }
  }
  // 24 of label 0 by three ranks, 16 of label 1 by two: no example twice.
  EXPECT_EQ(times_seen.size(), 40U);
}

TEST(ClassSkew, NamesTheRankWhoseClassHasNoExample) {
  const test::TemporaryFolder folder;
  DataOptions options;
  options.file = folder.write("ones.jsonl", "{\"input_ids\": [1], \"label\": 1}\n");
  options.class_skew = true;
  EXPECT_EQ(test::message_of<ConfigError>([&] { DataLoader(options, 1); }),
            "class_skew: got no example with label 0, expected some for rank 0");
}

struct BadLine {
  std::string name;
  std::string text;
  std::string message;
};

class BadData : public testing::TestWithParam<BadLine> {};

TEST_P(BadData, IsRefusedNamingFileLineAndField) {
  const test::TemporaryFolder folder;
  DataOptions options;
  options.vocabulary_size = 10;
  options.file =
      folder.write("bad.jsonl", "{\"input_ids\": [1], \"label\": 0}\n" + GetParam().text);
  const std::string message = test::message_of<ConfigError>([&] { DataLoader(options, 1); });
  EXPECT_THAT(message, AllOf(HasSubstr(options.file + ":2"), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadData,
    testing::Values(
        BadLine{"no_json", "{\"input_ids\": [1]", "not valid JSON"},
        BadLine{"nested",
                "{\"input_ids\": " + std::string(1000, '[') + std::string(1000, ']') + "}",
                "not valid JSON: "},
        BadLine{"blank", "\n{}", "not valid JSON"}, BadLine{"no_object", "[1, 2]", "an object"},
        BadLine{"no_ids", "{\"label\": 0}", "'input_ids': got nothing"},
        BadLine{"empty_ids", "{\"input_ids\": [], \"label\": 0}", "'input_ids': got []"},
        BadLine{"id_too_large", "{\"input_ids\": [3, 10], \"label\": 0}",
                "'input_ids': got 10, expected ids from 0 to 9"},
        BadLine{"id_negative", "{\"input_ids\": [-1], \"label\": 0}", "'input_ids': got -1"},
        BadLine{"id_fraction", "{\"input_ids\": [1.5], \"label\": 0}", "'input_ids': got 1.5"},
        BadLine{"id_beyond_64_bits", "{\"input_ids\": [18446744073709551615], \"label\": 0}",
                "'input_ids': got 18446744073709551615"},
        BadLine{"no_label", "{\"input_ids\": [1]}", "'label': got nothing"},
        BadLine{"label", "{\"input_ids\": [1], \"label\": 2}", "'label': got 2, expected 0 or 1"},
        BadLine{"unknown_field", "{\"input_ids\": [1], \"label\": 0, \"text\": \"a\"}",
                "'text': got an unknown field"}),
    [](const auto& info) { return info.param.name; });

TEST(Data, AMissingOrEmptyFileIsRefused) {
  const test::TemporaryFolder folder;
  DataOptions options;
  options.file = folder.file("absent.jsonl");
  EXPECT_THAT(test::message_of<ConfigError>([&] { DataLoader(options, 1); }),
              HasSubstr("absent.jsonl: cannot be read"));
  options.file = folder.write("empty.jsonl", "");
  EXPECT_THAT(test::message_of<ConfigError>([&] { DataLoader(options, 1); }),
              HasSubstr("empty.jsonl: holds no example"));
}

}  // namespace
}  // namespace gradsync::models
