#include "harness/fit/phases.h"

#include <gtest/gtest.h>

namespace gradsync::fit {
namespace {

watch::Event event(watch::EventKind kind, std::int64_t start_ns, std::int64_t end_ns) {
  watch::Event made;
  made.kind = kind;
  made.start_ns = start_ns;
  made.end_ns = end_ns;
  return made;
}

using watch::EventKind;

// Two micro-batches and an optimizer step, twice.
watch::RankEvents two_steps() {
  watch::RankEvents rank;
  for (const std::int64_t begin : {0, 1000}) {
    rank.events.push_back(event(EventKind::Forward, begin + 100, begin + 190));
    rank.events.push_back(event(EventKind::Backward, begin + 200, begin + 290));
    rank.events.push_back(event(EventKind::Forward, begin + 300, begin + 390));
    rank.events.push_back(event(EventKind::Backward, begin + 400, begin + 490));
    rank.events.push_back(event(EventKind::OptimizerStep, begin + 500, begin + 590));
  }
  return rank;
}

TEST(Phases, NameTheStepTheMicroBatchAndThePhase) {
  const Phases phases(two_steps());
  EXPECT_EQ(words_of(phases.at(50)), "before training");
  EXPECT_EQ(words_of(phases.at(150)), "step 1, micro-batch 1, forward");
  EXPECT_EQ(words_of(phases.at(195)), "step 1, micro-batch 1, forward") << "the loss";
  EXPECT_EQ(words_of(phases.at(250)), "step 1, micro-batch 1, backward");
  EXPECT_EQ(words_of(phases.at(350)), "step 1, micro-batch 2, forward");
  EXPECT_EQ(words_of(phases.at(450)), "step 1, micro-batch 2, backward");
  EXPECT_EQ(words_of(phases.at(550)), "step 1, micro-batch 2, optimizer");
  EXPECT_EQ(words_of(phases.at(1250)), "step 2, micro-batch 1, backward");
  EXPECT_EQ(words_of(phases.at(1550)), "step 2, micro-batch 2, optimizer");
}

TEST(Phases, ABackwardThatNeverEndedIsStillUnderWay) {
  watch::RankEvents rank;
  rank.events.push_back(event(EventKind::Backward, 200, 0));
  EXPECT_EQ(Phases(rank).at(900).phase, Phase::Backward);
}

TEST(Phases, ABackwardWithinABackwardIsAPartOfIt) {
  watch::RankEvents rank;
  rank.events.push_back(event(EventKind::Backward, 200, 500));
  rank.events.push_back(event(EventKind::Backward, 250, 290));
  rank.events.push_back(event(EventKind::Backward, 300, 390));
  EXPECT_EQ(words_of(Phases(rank).at(350)), "step 1, micro-batch 1, backward");
  EXPECT_EQ(words_of(Phases(rank).at(450)), "step 1, micro-batch 1, backward");
}

TEST(Phases, WithoutAWrapperWhatComesBeforeABackwardIsItsForward) {
  watch::RankEvents rank;
  rank.events.push_back(event(EventKind::Backward, 200, 290));
  EXPECT_EQ(words_of(Phases(rank).at(100)), "step 1, micro-batch 1, forward");
}

}  // namespace
}  // namespace gradsync::fit
