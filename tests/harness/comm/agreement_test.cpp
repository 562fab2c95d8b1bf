// All ranks make the same decision, whatever each of them saw, and no rank waits for ever.
#include "harness/comm/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "harness/base/errors.h"

namespace gradsync::comm {
namespace {

constexpr int kRanks = 3;
constexpr double kDeadlineS = 30;  // for hangs alone

using testing::ElementsAre;

// Returns the answers that each rank gets, question by question; rank r says says(r, question).
std::vector<std::vector<bool>> answers(int questions,
                                       const std::function<bool(int rank, int question)>& says) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::vector<bool>> told(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      Agreement agreement(store, kRanks, kDeadlineS);
      for (int question = 0; question < questions; ++question) {
        told[static_cast<std::size_t>(rank)].push_back(agreement.all_say(says(rank, question)));
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return told;
}

TEST(Agreement, IsReachedWhereAllSayYes) {
  for (const auto& told : answers(1, [](int, int) { return true; })) {
    EXPECT_THAT(told, ElementsAre(true));
  }
}

TEST(Agreement, OneNoIsTheAnswerOfAll) {
  for (int dissenter = 0; dissenter < kRanks; ++dissenter) {
    for (const auto& told : answers(1, [&](int rank, int) { return rank != dissenter; })) {
      EXPECT_THAT(told, ElementsAre(false));
    }
  }
}

TEST(Agreement, EachQuestionHasItsOwnAnswer) {
  const auto says = [](int rank, int question) { return question != 1 || rank != 2; };
  for (const auto& told : answers(4, says)) {
    EXPECT_THAT(told, ElementsAre(true, false, true, true));
  }
}

TEST(Agreement, OneAloneIsAskedWithoutAStore) {
  Agreement alone(nullptr, 1, kDeadlineS);
  EXPECT_TRUE(alone.all_say(true));
  EXPECT_FALSE(alone.all_say(false));
}

TEST(Agreement, ARankThatDoesNotAnswerIsWaitedForNoLongerThanTheDeadline) {
  constexpr double kShortS = 0.2;
  Agreement agreement(c10::make_intrusive<c10d::HashStore>(), 2, kShortS);
  try {
    agreement.all_say(true);
    FAIL() << "no other rank voted";
  } catch (const CommError& error) {
    EXPECT_TRUE(error.timed_out());
    EXPECT_THAT(error.what(), testing::HasSubstr("0.2 s"));
  }
}

}  // namespace
}  // namespace gradsync::comm
