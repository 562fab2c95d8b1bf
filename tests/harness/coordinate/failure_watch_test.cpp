// Which failure is the cause, and when a rank that says nothing is given up: on a clock of its own.
#include "harness/coordinate/failure_watch.h"

#include <gmock/gmock.h>

#include <array>

#include "harness/base/clock.h"

namespace gradsync::coordinate {
namespace {

using launch::RankEvent;
using nlohmann::json;
using testing::HasSubstr;

// Two ranks of which only progress and states are looked at.
class TwoRanks : public launch::RankGroup {
 public:
  TwoRanks() {
    topology_.ranks_per_node = 2;
    for (launch::RankProgress& rank : places) rank.trial = 3;
  }
  std::optional<RankEvent> next_event(double) override { return std::nullopt; }
  void send(int, const json&) override {}
  const launch::RankProgress& progress(int rank) const override {
    return places.at(std::size_t(rank));
  }
  char process_state(int rank) const override { return states.at(std::size_t(rank)); }
  bool running(int rank) const override { return states.at(std::size_t(rank)) != 0; }
  const launch::Topology& topology() const override { return topology_; }

  std::array<launch::RankProgress, 2> places{};
  std::array<char, 2> states{'R', 'R'};

 private:
  launch::Topology topology_;
};

constexpr std::int64_t kStart = 1'000'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

RankFailure error_of(bool by_peer) {
  return {"failed", by_peer, "it broke", 3};
}

TEST(FailureWatch, ARankIsGivenUpAtItsDeadlineAndNotBefore) {
  TwoRanks ranks;
  FailureWatch watch(ranks);
  ranks.places[0].changed_ns = kStart + 5 * kSecond;
  ranks.places[1].changed_ns = kStart + 2 * kSecond;
  watch.note_hangs(kStart + 12 * kSecond - 1, kStart, 10);
  EXPECT_FALSE(watch.first_cause());
  watch.note_hangs(kStart + 12 * kSecond, kStart, 10);
  ASSERT_TRUE(watch.first_cause());
  EXPECT_EQ(watch.first_cause()->status, "timeout");
  EXPECT_EQ(watch.first_cause()->order, 3);
  EXPECT_THAT(watch.first_cause()->reason,
              HasSubstr("[rank 1/2 node0] no sign of life for 10 s in "));
}

TEST(FailureWatch, ARankThatHasYetToBeginCountsFromTheStart) {
  TwoRanks ranks;
  FailureWatch watch(ranks);
  watch.note_hangs(kStart + 10 * kSecond - 1, kStart, 10);
  EXPECT_FALSE(watch.first_cause());
  watch.note_hangs(kStart + 10 * kSecond, kStart, 10);
  EXPECT_TRUE(watch.first_cause());
}

TEST(FailureWatch, ARankThatHasEndedIsNotWaitedFor) {
  TwoRanks ranks;
  FailureWatch watch(ranks);
  ranks.states = {0, 0};
  watch.note_hangs(kStart + 100 * kSecond, kStart, 10);
  EXPECT_FALSE(watch.first_cause());
}

TEST(FailureWatch, WhoeverIsStoppedIsTheCauseThatOthersComplainOf) {
  TwoRanks ranks;
  FailureWatch watch(ranks);
  watch.note(0, error_of(/*by_peer=*/true));
  ranks.states[1] = 'T';
  watch.note_stopped();
  EXPECT_EQ(watch.first_cause()->status, "timeout");
  EXPECT_THAT(watch.first_cause()->reason, HasSubstr("[rank 1/2 node0] is stopped (SIGSTOP)"));
}

TEST(FailureWatch, ADeathIsTheCauseWhateverWasHeardFirst) {
  TwoRanks ranks;
  FailureWatch watch(ranks);
  watch.note(0, error_of(/*by_peer=*/true));
  watch.note(0, error_of(/*by_peer=*/false));
  RankEvent death;
  death.kind = RankEvent::Kind::Killed;
  death.rank = 1;
  death.signal = 9;
  watch.note(death);
  watch.note(0, error_of(/*by_peer=*/false));
  EXPECT_THAT(watch.first_cause()->reason, HasSubstr("[rank 1/2 node0] killed by signal 9"));
}

}  // namespace
}  // namespace gradsync::coordinate
