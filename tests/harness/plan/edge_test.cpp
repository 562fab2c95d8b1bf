// The edge of what fits, from made-up verdicts.
#include "harness/plan/edge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>
#include <vector>

namespace gradsync::test {
namespace {

using plan::Edge;
using plan::EdgeQuestion;
using plan::Probe;
using plan::ProbeVerdict;
using plan::Wanted;

using Values = std::vector<std::int64_t>;

constexpr EdgeQuestion kLargest{Wanted::Largest, 1, 64, 2};
constexpr EdgeQuestion kSmallest{Wanted::Smallest, 1, 1 << 30, 2};

// Answers, and remembers what it was asked.
struct Asked {
  std::function<Probe(std::int64_t)> answer;
  Values values;

  Edge edge(const EdgeQuestion& question) {
    return plan::find_edge(question, [this](std::int64_t value) {
      EXPECT_EQ(std::count(values.begin(), values.end(), value), 0) << value << " asked twice";
      if (values.size() > 100) throw std::runtime_error("it asks without end");
      values.push_back(value);
      return answer(value);
    });
  }
};

Probe verdict(bool fits) {
  return {fits ? ProbeVerdict::Fits : ProbeVerdict::DoesNotFit, std::nullopt};
}

Asked fits_up_to(std::int64_t largest) {
  return {[largest](std::int64_t value) { return verdict(value <= largest); }, {}};
}

// A budget: fits from `smallest` on, and says that it needed `peak`.
Asked budget(std::int64_t smallest, std::int64_t peak) {
  return {[=](std::int64_t value) {
            Probe probe = verdict(value >= smallest);
            if (value >= smallest) probe.needed = peak;
            return probe;
          },
          {}};
}

std::size_t most_halvings(const EdgeQuestion& question) {
  return static_cast<std::size_t>(std::ceil(std::log2(question.to - question.from)));
}

void expect_found(const Edge& edge, std::int64_t fits, std::int64_t does_not_fit) {
  EXPECT_EQ(edge.outcome, Edge::Outcome::Found);
  EXPECT_EQ(edge.fits, fits);
  EXPECT_EQ(edge.does_not_fit, does_not_fit);
}

TEST(FindEdge, EveryEdgeInFewProbes) {
  for (std::int64_t largest = 1; largest < 64; ++largest) {
    Asked asked = fits_up_to(largest);
    expect_found(asked.edge(kLargest), largest, largest + 1);
    EXPECT_LE(asked.values.size(), 2 + most_halvings(kLargest) + 4);
  }
}

TEST(FindEdge, EveryEdgeOfTheSmallest) {
  const EdgeQuestion question{Wanted::Smallest, 1, 64, 2};
  for (std::int64_t smallest = 2; smallest <= 64; ++smallest) {
    Asked asked{[=](std::int64_t value) { return verdict(value >= smallest); }, {}};
    expect_found(asked.edge(question), smallest, smallest - 1);
    EXPECT_LE(asked.values.size(), 2 + most_halvings(question) + 4);
  }
}

TEST(FindEdge, BothEndsComeFirstAndChecksLast) {
  Asked asked = fits_up_to(5);
  asked.edge(kLargest);
  EXPECT_EQ(asked.values, (Values{1, 64, 32, 16, 8, 4, 6, 5, 2, 3, 25, 44}));
}

TEST(FindEdge, WithoutChecksNothingIsConfirmed) {
  Asked asked = fits_up_to(5);
  EdgeQuestion question = kLargest;
  question.checks = 0;
  expect_found(asked.edge(question), 5, 6);
  EXPECT_EQ(asked.values.size(), 8U);
}

TEST(FindEdge, ChecksAreEachAskedOnce) {
  Asked asked = fits_up_to(2);
  EdgeQuestion question{Wanted::Largest, 1, 5, 50};
  expect_found(asked.edge(question), 2, 3);
  EXPECT_EQ(std::set<std::int64_t>(asked.values.begin(), asked.values.end()),
            (std::set<std::int64_t>{1, 2, 3, 4, 5}));
}

TEST(FindEdge, AllFit) {
  Asked asked = fits_up_to(64);
  const Edge edge = asked.edge(kLargest);
  EXPECT_EQ(edge.outcome, Edge::Outcome::AllFit);
  EXPECT_EQ(edge.fits, 64);
  EXPECT_EQ(asked.values, (Values{1, 64}));
}

TEST(FindEdge, NoneFits) {
  Asked asked = fits_up_to(0);
  const Edge edge = asked.edge(kLargest);
  EXPECT_EQ(edge.outcome, Edge::Outcome::NoneFits);
  EXPECT_EQ(edge.does_not_fit, 1);
  EXPECT_EQ(asked.values, (Values{1, 64}));
}

TEST(FindEdge, EndsInTheWrongOrder) {
  Asked asked{[](std::int64_t value) { return verdict(value > 9); }, {}};
  const Edge edge = asked.edge(kLargest);
  EXPECT_EQ(edge.outcome, Edge::Outcome::NotMonotone);
  EXPECT_EQ(edge.fits, 64);
  EXPECT_EQ(edge.does_not_fit, 1);
}

// Bisection alone says 5: of the values that it tries none contradicts it.
TEST(FindEdge, AGapOnTheFittingSideIsNamed) {
  Asked asked{[](std::int64_t value) { return verdict(value <= 5 && value != 3); }, {}};
  EdgeQuestion question = kLargest;
  const Edge edge = asked.edge(question);
  EXPECT_EQ(edge.outcome, Edge::Outcome::NotMonotone);
  EXPECT_EQ(edge.fits, 5);
  EXPECT_EQ(edge.does_not_fit, 3);
  question.checks = 0;
  asked.values.clear();
  expect_found(asked.edge(question), 5, 6);
}

TEST(FindEdge, AnIslandBeyondTheEdgeIsNamed) {
  Asked asked{[](std::int64_t value) { return verdict(value <= 5 || (value > 40 && value < 60)); },
              {}};
  const Edge edge = asked.edge(kLargest);
  EXPECT_EQ(edge.outcome, Edge::Outcome::NotMonotone);
  EXPECT_EQ(edge.fits, 44);
  EXPECT_EQ(edge.does_not_fit, 6);
}

TEST(FindEdge, AProbeWithoutVerdictStops) {
  for (const std::int64_t broken : {1, 64, 32, 25}) {
    Asked asked{[=](std::int64_t value) { return value == broken ? Probe{} : verdict(value <= 5); },
                {}};
    EXPECT_EQ(asked.edge(kLargest).outcome, Edge::Outcome::Stopped);
    EXPECT_EQ(asked.values.back(), broken);
  }
}

TEST(FindEdge, WhatAProbeThrowsPasses) {
  Asked asked{[](std::int64_t) -> Probe { throw std::runtime_error("interrupted"); }, {}};
  EXPECT_THROW(asked.edge(kLargest), std::runtime_error);
}

// A peak is the answer to the byte: it and one byte less take the place of 30 halvings.
TEST(FindEdge, AMeasuredNeedIsTriedInsteadOfHalving) {
  Asked asked = budget(123'456, 123'456);
  EdgeQuestion question = kSmallest;
  question.checks = 0;
  expect_found(asked.edge(question), 123'456, 123'455);
  EXPECT_EQ(asked.values, (Values{1 << 30, 1, 123'456, 123'455}));
}

TEST(FindEdge, AWrongNeedIsBelievedOnce) {
  for (const std::int64_t peak : {100'000, 200'000}) {  // too little, too much
    Asked asked = budget(123'456, peak);
    expect_found(asked.edge(kSmallest), 123'456, 123'455);
    EXPECT_LE(asked.values.size(), 2 + 2 + most_halvings(kSmallest) + 4);
  }
}

// As a GPU's allocator, which rounds: each budget that fits says that a byte less than it would do.
TEST(FindEdge, ANeedThatKeepsFallingDoesNotCrawl) {
  Asked asked{[](std::int64_t value) {
                Probe probe = verdict(value >= 123'456);
                probe.needed = value;
                return probe;
              },
              {}};
  expect_found(asked.edge(kSmallest), 123'456, 123'455);
  EXPECT_LE(asked.values.size(), 2 + 2 + most_halvings(kSmallest) + 4);
}

}  // namespace
}  // namespace gradsync::test
