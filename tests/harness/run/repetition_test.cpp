// Which micro-batches are passed over, by what a rank sees of them and what its peers say.
//
// The meter of this process is installed before the first case; a micro-batch is played: tensors
// that come and go, and lines of the ledger.
#include "harness/run/repetition.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "harness/base/clock.h"
#include "harness/measure/memory.h"

namespace gradsync::run {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class InstalledMeter : public testing::Environment {
  void SetUp() override { measure::meter().install({.estimate_reserved = true}); }
};
const auto* const installed_meter = testing::AddGlobalTestEnvironment(new InstalledMeter);

const sync::Collectives kNothing;
const sync::Collectives kReduced{{"all_reduce", {16}}};

// What a played micro-batch holds for a while, holds for good, and reduces.
struct Played {
  std::int64_t for_a_while = 100;
  std::int64_t for_good = 0;
  std::int64_t reduced_bytes = 0;
};

class RepetitionTest : public testing::Test {
 protected:
  // Plays the micro-batches of one step. Returns those that ran.
  std::vector<int> ran(const std::vector<sync::Collectives>& declared,
                       const std::function<Played(int)>& plays) {
    Repetition repetition(ledger_, declared, [this](bool yes) {
      asked_.push_back(yes);
      return yes && peers_say_yes_;
    });
    std::vector<int> numbers;
    for (int i = 0; i < static_cast<int>(declared.size()); ++i) {
      if (repetition.passes_over(0, i)) continue;
      numbers.push_back(i);
      play(i, plays(i));
    }
    passed_over_ = repetition.passed_over_in(0);
    return numbers;
  }

  void play(int number, const Played& played) {
    ledger_.set_place(0, number);
    measure::meter().set_place(0, number, "forward");
    if (played.for_good > 0) kept_.push_back(at::empty({played.for_good}, at::kByte));
    const at::Tensor gone = at::empty({played.for_a_while}, at::kByte);
    measure::meter().set_phase("backward");
    if (played.reduced_bytes > 0)
      ledger_.complete(ledger_.start("all_reduce", played.reduced_bytes));
  }

  comm::Ledger ledger_{steady_clock()};
  std::vector<at::Tensor> kept_;
  bool peers_say_yes_ = true;
  std::vector<bool> asked_;
  PassedOver passed_over_;
};

std::vector<sync::Collectives> last_reduces(std::size_t count) {
  std::vector<sync::Collectives> declared(count, kNothing);
  declared.back() = kReduced;
  return declared;
}

TEST_F(RepetitionTest, AllButTheLastNeedNotRunOnceOneRepeats) {
  EXPECT_THAT(ran(last_reduces(6), [](int) { return Played{}; }), ElementsAre(0, 1, 5));
  EXPECT_EQ(passed_over_.first, 2);
  EXPECT_EQ(passed_over_.count(), 3);
}

// The first creates gradients, the second adds to them.
TEST_F(RepetitionTest, WhatTheFirstDoesOnceIsNotTakenForTheRule) {
  const auto plays = [](int i) { return Played{.for_good = i == 0 ? 400 : 0}; };
  EXPECT_THAT(ran(last_reduces(6), plays), ElementsAre(0, 1, 2, 5));
}

TEST_F(RepetitionTest, MemoryThatGrowsNeverRepeats) {
  const auto plays = [](int) { return Played{.for_good = 400}; };
  EXPECT_THAT(ran(last_reduces(5), plays), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(passed_over_.count(), 0);
}

TEST_F(RepetitionTest, AByteMoreInTheMiddleIsSeen) {
  const auto plays = [](int i) { return Played{.for_a_while = i == 1 ? 101 : 100}; };
  EXPECT_THAT(ran(last_reduces(7), plays), ElementsAre(0, 1, 2, 3, 6));
}

TEST_F(RepetitionTest, CollectivesThatDifferAreSeen) {
  const std::vector<sync::Collectives> declared(6, kReduced);
  const auto plays = [](int i) { return Played{.reduced_bytes = i == 0 ? 32 : 16}; };
  EXPECT_THAT(ran(declared, plays), ElementsAre(0, 1, 2, 5));
}

// Local SGD's every fourth, say: two alike do not speak for one that is to synchronize.
TEST_F(RepetitionTest, OneThatDeclaresOtherwiseRuns) {
  std::vector<sync::Collectives> declared = last_reduces(8);
  declared[3] = kReduced;
  const auto plays = [](int i) { return Played{.reduced_bytes = i == 3 || i == 7 ? 16 : 0}; };
  EXPECT_THAT(ran(declared, plays), ElementsAre(0, 1, 2, 3, 4, 5, 7));
}

TEST_F(RepetitionTest, APeerThatSawNoRepetitionIsWaitedFor) {
  peers_say_yes_ = false;
  EXPECT_THAT(ran(last_reduces(6), [](int) { return Played{}; }), ElementsAre(0, 1, 2, 3, 4, 5));
}

// A rank that did not ask would leave those that do alone.
TEST_F(RepetitionTest, WhetherItAsksDoesNotDependOnWhatItSaw) {
  peers_say_yes_ = false;
  ran(last_reduces(6), [](int) { return Played{}; });
  EXPECT_THAT(asked_, ElementsAre(true, true, true));
  asked_.clear();
  ran(last_reduces(6), [](int i) { return Played{.for_a_while = 100 + i}; });
  EXPECT_THAT(asked_, ElementsAre(false, false, false));
}

TEST_F(RepetitionTest, ThreeMicroBatchesHaveNothingToPassOver) {
  EXPECT_THAT(ran(last_reduces(3), [](int) { return Played{}; }), ElementsAre(0, 1, 2));
  EXPECT_THAT(asked_, IsEmpty());
}

}  // namespace
}  // namespace gradsync::run
