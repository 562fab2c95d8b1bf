// Gradients that cross the wire in two bytes each, against sums worked by hand.
// Covers: compress_hook.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/base/errors.h"
#include "harness/run/expectation.h"
#include "harness/sync/backward.h"
#include "harness/sync/ddp.h"
#include "tests/harness/sync/ranks.h"

namespace gradsync::test {
namespace {

using sync::DdpOptions;
using sync::DistributedDataParallel;

constexpr std::int64_t kWidth = 3;

// Its gradient is what the batch holds.
class GivenGradient : public models::Model {
 public:
  explicit GivenGradient(at::ScalarType dtype = at::kFloat) {
    weight = register_parameter("weight", at::zeros({kWidth}, dtype));
    unused = register_parameter("unused", at::zeros({1}, dtype));
  }
  at::Tensor loss(const models::Batch& batch) override {
    const at::Tensor loss = (weight * batch.input_ids.to(weight.scalar_type())).sum();
    return batch.labels.item<std::int64_t>() > 0 ? loss + 0 * unused.sum() : loss;
  }
  at::Tensor weight, unused;
};

models::Batch batch_of(const std::vector<std::int64_t>& gradient, bool uses_all = true) {
  models::Batch batch;
  batch.input_ids = at::tensor(gradient, at::kLong);
  batch.labels = at::tensor(uses_all ? 1 : 0, at::kLong);
  return batch;
}

std::vector<float> gradient_of(const DistributedDataParallel& model) {
  const at::Tensor gradient = model.parameters()[0].grad().contiguous();
  return {gradient.data_ptr<float>(), gradient.data_ptr<float>() + kWidth};
}

class Compression : public ::testing::TestWithParam<bool> {
 public:
  // With gradients that are views of buckets or not.
  static DdpOptions options(at::ScalarType dtype) {
    return {.gradient_as_bucket_view = GetParam(), .compress_to = dtype};
  }
};

// 40000 fits fp16, twice 40000 does not: each is halved before. In bf16, with steps of 256 there,
// it is 39936. 4097 is 4096 in fp16 (steps of 4) and in bf16 (32); half of it and 1.5 are 2049.5,
// which is 2050 in fp16 (steps of 2) and 2048 in bf16 (16).
TEST_P(Compression, ValuesAreCastThenDividedThenSummed) {
  using Values = std::vector<float>;
  for (const auto& [dtype, wanted] : {std::pair{at::kHalf, Values{40000, 1.5, 2050}},
                                      {at::kBFloat16, Values{39936, 1.5, 2048}}}) {
    run_ranks(2, [&](RankHarness& rank) {
      DistributedDataParallel model(std::make_shared<GivenGradient>(), rank.group, options(dtype));
      for (int repeat = 0; repeat < 3; ++repeat) {  // past the bucket rebuild
        for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
        const auto batch = rank.rank == 0 ? batch_of({40000, 1, 3}) : batch_of({40000, 2, 4097});
        sync::backward(model.forward(batch), 1, nullptr);
        EXPECT_EQ(gradient_of(model), wanted) << repeat;
      }
    });
  }
}

// 4097 is 4096 in fp16, and a third of that 1365, where a third of 4097 would be 1366.
TEST_P(Compression, AThirdIsTakenOfWhatWasCast) {
  run_ranks(3, [](RankHarness& rank) {
    DistributedDataParallel model(std::make_shared<GivenGradient>(), rank.group,
                                  options(at::kHalf));
    sync::backward(model.forward(batch_of({rank.rank == 0 ? 4097 : 0, 3, 0})), 1, nullptr);
    EXPECT_EQ(gradient_of(model), (std::vector<float>{1365, 3, 0}));
  });
}

// 4097 - 4096 is 1; cast one by one they would cancel.
TEST_P(Compression, GradientsAccumulateAsTheyAre) {
  run_ranks(2, [](RankHarness& rank) {
    DistributedDataParallel model(std::make_shared<GivenGradient>(), rank.group,
                                  options(at::kBFloat16));
    {
      const auto guard = model.no_sync();
      sync::backward(model.forward(batch_of({4097, 0, 0})), 1, nullptr);
    }
    sync::backward(model.forward(batch_of({-4096, 0, 0})), 1, nullptr);
    EXPECT_EQ(gradient_of(model), (std::vector<float>{1, 0, 0}));
  });
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutBucketView, Compression, ::testing::Bool());

// What a synchronized micro-batch after the bucket rebuild declares, and how it differs from what
// the ledger saw.
struct Traffic {
  sync::Collectives declared;
  std::string mismatch;
};

Traffic traffic(RankHarness& rank, const DdpOptions& options) {
  DistributedDataParallel model(std::make_shared<GivenGradient>(), rank.group, options);
  const bool uses_all = !options.find_unused_parameters || rank.rank == 0;
  for (int step = -2; step < 1; ++step) {
    rank.ledger.settle(kTimeoutS);
    rank.ledger.clear();
    rank.ledger.set_place(step, 0);
    sync::backward(model.forward(batch_of({1, 2, 3}, uses_all)), 1, nullptr);
  }
  rank.ledger.settle(kTimeoutS);
  const auto declared = model.declared({true});
  Traffic seen{declared[0], run::first_mismatch(declared, rank.ledger.events(), 0)};
  rank.ledger.clear();
  return seen;
}

using Sizes = std::vector<std::int64_t>;

TEST(CompressedTraffic, IsHalfOfWhatItWouldBeAsDeclared) {
  run_ranks(2, [](RankHarness& rank) {
    const Traffic whole = traffic(rank, {});
    const Traffic half = traffic(rank, {.compress_to = at::kHalf});
    EXPECT_EQ(whole.declared.at("all_reduce"), (Sizes{16}));
    EXPECT_EQ(half.declared.at("all_reduce"), (Sizes{8}));
    EXPECT_EQ(whole.mismatch + half.mismatch, "");
  });
}

TEST(CompressedTraffic, TheMapOfUnusedParametersStaysAsItIs) {
  run_ranks(2, [](RankHarness& rank) {
    const Traffic seen =
        traffic(rank, {.find_unused_parameters = true, .compress_to = at::kBFloat16});
    EXPECT_EQ(seen.declared.at("all_reduce"), (Sizes{8, 8}));
    EXPECT_EQ(seen.mismatch, "");
  });
}

TEST(CompressedTraffic, GradientsOfTwoBytesAreRefused) {
  run_ranks(1, [](RankHarness& rank) {
    const auto module = std::make_shared<GivenGradient>(at::kBFloat16);
    try {
      const DistributedDataParallel model(module, rank.group, {.compress_to = at::kHalf});
      ADD_FAILURE() << "no error";
    } catch (const ConfigError& error) {
      EXPECT_STREQ(error.what(), "compress_to: got a parameter of BFloat16, expected Float");
    }
  });
}

}  // namespace
}  // namespace gradsync::test
