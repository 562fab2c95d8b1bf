#include "models/data.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "harness/base/errors.h"
#include "models/data_file.h"
#include "models/pictures.h"
#include "models/seeded_random.h"

namespace gradsync::models {
namespace {

// MRPC's training set (Dolan and Brockett 2005; in GLUE, arXiv:1804.07461): this many sentence
// pairs. Tokenized pairs have about this mean, standard deviation and range in word pieces; the
// clipped normal drawn from them is an approximation, close enough for padding and stragglers.
constexpr std::int64_t kMrpcExamples = 3668;
constexpr double kMrpcMeanTokens = 53;
constexpr double kMrpcSdTokens = 13;
constexpr double kMrpcShortest = 20;
constexpr double kMrpcLongest = 103;
// Ids below this are special tokens in BERT's vocabularies.
constexpr std::int64_t kFirstOrdinaryToken = 106;

std::int64_t mrpc_length(SeededRandom& random, std::int64_t longest) {
  const double tokens = kMrpcMeanTokens + kMrpcSdTokens * random.normal();
  const double clipped = std::clamp(std::round(tokens), kMrpcShortest, kMrpcLongest);
  return std::min(static_cast<std::int64_t>(clipped), longest);
}

std::vector<Example> synthetic_examples(const DataOptions& options) {
  if (options.pictures) {
    return synthetic_pictures(kMrpcExamples, options.sequence_length, options.seed);
  }
  SeededRandom random(options.seed);
  const std::int64_t first =
      options.vocabulary_size > kFirstOrdinaryToken ? kFirstOrdinaryToken : 0;
  std::vector<Example> examples(kMrpcExamples);
  for (Example& example : examples) {
    const std::int64_t length = options.varying_lengths
                                    ? mrpc_length(random, options.sequence_length)
                                    : options.sequence_length;
    for (std::int64_t i = 0; i < length; ++i) {
      example.ids.push_back(first + random.below(options.vocabulary_size - first));
    }
    example.label = random.below(2);
  }
  return examples;
}

// Who deals out the examples that a rank sees among themselves, and which of them it is.
struct Dealing {
  std::size_t rank = 0;
  std::size_t ranks = 1;
};

// Leaves the examples of this rank's class in `order`; the ranks of a class share them.
Dealing keep_own_class(std::vector<std::size_t>& order, const std::vector<Example>& examples,
                       const DataOptions& options) {
  const std::int64_t classes = std::ranges::max_element(examples, {}, &Example::label)->label + 1;
  const std::int64_t own = options.rank % classes;
  std::erase_if(order, [&](std::size_t i) { return examples[i].label != own; });
  if (order.empty()) {
    throw ConfigError(fmt::format(
        "class_skew: got no example with label {}, expected some for rank {}", own, options.rank));
  }
  const std::int64_t ranks = (options.world_size - own + classes - 1) / classes;
  return {static_cast<std::size_t>(options.rank / classes), static_cast<std::size_t>(ranks)};
}

// The examples of one epoch in shuffled order, this rank's share: every world_size-th, as torch's
// DistributedSampler deals them. Incomplete last batches are filled from the beginning, as in
// Accelerate (even_batches), so that all ranks have equally many batches, all of one size.
std::vector<std::size_t> share_of(const std::vector<Example>& examples, int epoch,
                                  const DataOptions& options) {
  std::vector<std::size_t> order(examples.size());
  std::iota(order.begin(), order.end(), 0);
  SeededRandom random(options.seed + 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(epoch + 1));
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i],
              order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1))]);
  }
  Dealing dealing{static_cast<std::size_t>(options.rank),
                  static_cast<std::size_t>(options.world_size)};
  const auto size = static_cast<std::size_t>(options.micro_batch_size);
  const std::size_t together = dealing.ranks * size;
  const std::size_t batches = (examples.size() + together - 1) / together;
  if (options.class_skew) dealing = keep_own_class(order, examples, options);
  std::vector<std::size_t> share;
  for (std::size_t i = 0; i < batches * size; ++i) {
    share.push_back(order[(dealing.rank + i * dealing.ranks) % order.size()]);
  }
  return share;
}

// Pads to the longest example of the batch, or to the fixed length.
Batch batch_of(const std::vector<const Example*>& examples, const DataOptions& options) {
  std::int64_t length = options.varying_lengths ? 1 : options.sequence_length;
  bool padded = false;
  for (const Example* example : examples) {
    length = std::max(length, static_cast<std::int64_t>(example->ids.size()));
  }
  const auto rows = static_cast<std::int64_t>(examples.size());
  const at::Tensor ids = at::zeros({rows, length}, at::kLong);
  const at::Tensor mask = at::zeros({rows, length}, at::kLong);
  const at::Tensor labels = at::zeros({rows}, at::kLong);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Example& example = *examples[static_cast<std::size_t>(row)];
    std::copy(example.ids.begin(), example.ids.end(), ids[row].data_ptr<std::int64_t>());
    std::fill_n(mask[row].data_ptr<std::int64_t>(), example.ids.size(), 1);
    labels.data_ptr<std::int64_t>()[row] = example.label;
    padded = padded || static_cast<std::int64_t>(example.ids.size()) < length;
  }
  return {ids.to(options.device), padded ? mask.to(options.device) : at::Tensor(),
          labels.to(options.device), 0};
}

}  // namespace

DataLoader::DataLoader(const DataOptions& options, int batches) {
  GRADSYNC_CHECK(batches, >, 0);
  if (options.pictures && options.varying_lengths) {
    throw ConfigError("lengths: got mrpc for a model that reads pictures, expected fixed");
  }
  const std::vector<Example> examples =
      options.file.empty()
          ? synthetic_examples(options)
          : read_examples(options.file, options.vocabulary_size, options.sequence_length);
  const auto size = static_cast<std::size_t>(options.micro_batch_size);
  for (int epoch = 0; static_cast<int>(batches_.size()) < batches; ++epoch) {
    const std::vector<std::size_t> share = share_of(examples, epoch, options);
    batches_per_epoch_ = static_cast<int>(share.size() / size);
    for (std::size_t first = 0; first < share.size(); first += size) {
      if (static_cast<int>(batches_.size()) == batches) break;
      std::vector<const Example*> chosen;
      for (std::size_t i = first; i < first + size; ++i) chosen.push_back(&examples[share[i]]);
      const auto index = static_cast<std::uint64_t>(batches_.size());
      batches_.push_back(batch_of(chosen, options));
      batches_.back().number = static_cast<std::uint64_t>(options.rank) +
                               static_cast<std::uint64_t>(options.world_size) * index;
    }
  }
}

const Batch& DataLoader::next() {
  const Batch& batch = batches_[position_];
  position_ = (position_ + 1) % batches_.size();
  return batch;
}

}  // namespace gradsync::models
