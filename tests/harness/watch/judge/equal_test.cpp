// First steps whose gradients are known, compared.
#include "harness/watch/judge/equal.h"

#include <gtest/gtest.h>

#include <functional>

#include "harness/base/errors.h"
#include "tests/harness/account/made_account.h"
#include "tests/harness/report/golden.h"

namespace gradsync::watch {
namespace {

using account::Column;
using account::kSketchBuckets;
using account::Sought;
using test::MadeAccount;

const Split kSplit{2, 4, 3};

FirstStep made_step() {
  return first_step_of(kSplit, MadeAccount{}.records());
}

// Returns the step of one rank with all of `other`'s samples, in which each micro-batch has that
// weight.
FirstStep right_step(const FirstStep& other, const std::function<double(const Column&)>& weight) {
  FirstStep right = other;
  right.split = {1, 1, 24};
  for (Sought& each : right.parameters) {
    each.gradient = {};
    for (const auto& [column, sketch] : each.columns) {
      for (std::size_t b = 0; b < kSketchBuckets; ++b) {
        each.gradient[b] += weight(column) * sketch[b];
      }
    }
  }
  return right;
}

double as_it_is(const Column&) {
  return 0.5;  // DDP's mean over two ranks
}

TEST(FirstSteps, AreEqualWithinRounding) {
  const FirstStep other = made_step();
  const EqualVerdict verdict = compare_first_steps(right_step(other, as_it_is), other);
  EXPECT_EQ(verdict.kind, EqualKind::Equal);
  EXPECT_EQ(verdict.sentence.substr(0, 12), "equal within");
}

TEST(FirstSteps, AFactorHasItsReason) {
  const FirstStep other = made_step();
  for (const auto& [factor, why] : std::vector<std::pair<double, std::string>>{
           {4, "summed over micro-batches, not averaged"},
           {0.25, "divided by micro-batches once more"},
           {2, "summed over ranks, not averaged"},
           {0.5, "divided by ranks once more"},
           {8, "once for each micro-batch of each rank"},
           {0.125, "divided by ranks and micro-batches once more"},
           {3, ""}}) {
    const auto smaller = [by = factor](const Column&) { return 0.5 / by; };
    const EqualVerdict verdict = compare_first_steps(right_step(other, smaller), other);
    EXPECT_EQ(verdict.kind, EqualKind::Factor);
    EXPECT_EQ(verdict.why, why);
  }
}

TEST(FirstSteps, AMeanOverEachMicroBatchsTokensIsNamed) {
  FirstStep other = made_step();
  other.tokens = {{2, 4, 6, 8}, {10, 12, 14, 16}};
  const auto by_tokens = [&](const Column& column) {
    const auto& tokens = other.tokens[static_cast<std::size_t>(column.rank)];
    return static_cast<double>(tokens[static_cast<std::size_t>(column.micro_batch)]) / 18;
  };
  const EqualVerdict verdict = compare_first_steps(right_step(other, by_tokens), other);
  EXPECT_EQ(verdict.kind, EqualKind::OtherWeights);
  test::expect_phrases("watch/judge", {verdict.why});
}

TEST(FirstSteps, OtherWeightsWithoutTokensAreToldWithoutAReason) {
  const FirstStep other = made_step();
  const auto doubled = [](const Column& column) { return column.micro_batch == 0 ? 1.0 : 0.5; };
  const EqualVerdict verdict = compare_first_steps(right_step(other, doubled), other);
  test::expect_phrases("watch/judge", {verdict.sentence});
  EXPECT_EQ(verdict.why, "");
  EXPECT_TRUE(is_unequal(verdict.kind));
}

// All count alike in the right gradient: what the other drops is what an account of it says.
TEST(FirstSteps, ADroppedMicroBatchIsToldAsAnAccountTellsIt) {
  MadeAccount job;
  job.weight = [](int, int, int micro_batch) { return micro_batch == 0 ? 0.0 : 1.0; };
  const FirstStep other = first_step_of(kSplit, job.records());
  const EqualVerdict verdict = compare_first_steps(right_step(other, as_it_is), other);
  EXPECT_TRUE(is_unequal(verdict.kind));
  test::expect_phrases("watch/judge", {verdict.sentence});
}

TEST(FirstSteps, OtherSamplesAreNoFaultOfTheLoss) {
  const FirstStep other = made_step();
  FirstStep right = first_step_of(kSplit, MadeAccount{}.records(2));
  for (std::size_t p = 0; p < right.parameters.size(); ++p) {
    right.parameters[p].value = other.parameters[p].value;
  }
  const EqualVerdict verdict = compare_first_steps(right, other);
  EXPECT_EQ(verdict.kind, EqualKind::OtherSamples);
  EXPECT_FALSE(is_unequal(verdict.kind));
}

TEST(FirstSteps, OtherParametersBeforeTheStepAreNotCompared) {
  const FirstStep other = made_step();
  FirstStep right = other;
  right.parameters[1].value[3] += 0.01;
  const EqualVerdict verdict = compare_first_steps(right, other);
  EXPECT_EQ(verdict.kind, EqualKind::OtherStart);
  test::expect_phrases("watch/judge", {verdict.sentence});
  right = other;
  right.parameters.emplace_back();
  right.parameters.back().key = {1, 0};
  test::expect_phrases("watch/judge", {compare_first_steps(right, other).sentence});
}

TEST(FirstSteps, AreOfTheSplitThatWasAskedFor) {
  MadeAccount job;
  EXPECT_THROW(first_step_of({2, 2, 1}, job.records()), EnvironmentError);
  EXPECT_THROW(first_step_of({4, 4, 1}, job.records()), EnvironmentError);
  EXPECT_THROW(first_step_of(kSplit, {}), EnvironmentError);
}

TEST(FirstSteps, RanksThatReadDifferentGradientsHaveNone) {
  auto records = MadeAccount{}.records();
  records[1].parameters[0].gradient[7] += 1;
  EXPECT_THROW(first_step_of(kSplit, records), EnvironmentError);
}

TEST(FirstSteps, OfSixteenBitsMayDifferMore) {
  MadeAccount job;
  for (const auto& [dtype, kind] : std::vector<std::pair<std::string, EqualKind>>{
           {"float32", EqualKind::Factor}, {"bfloat16", EqualKind::Equal}}) {
    job.dtype = dtype;
    const FirstStep other = first_step_of(kSplit, job.records());
    const auto near = [](const Column&) { return 0.505; };
    EXPECT_EQ(compare_first_steps(right_step(other, near), other).kind, kind);
  }
}

}  // namespace
}  // namespace gradsync::watch
