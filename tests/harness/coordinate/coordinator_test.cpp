// A launch whose ranks fail, as their launcher sees it; what the ranks do is played.
// Covers: watched_group.cpp.
#include "harness/coordinate/coordinator.h"

#include <gmock/gmock.h>

#include <array>
#include <csignal>
#include <deque>

#include "harness/base/clock.h"
#include "tests/harness/coordinate/played.h"

namespace gradsync::coordinate {
namespace {

using launch::RankEvent;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

RankEvent ran(int rank, int order) {
  return {RankEvent::Kind::Message, rank, test::trial_message(rank, order, 1), 0, 0, {}};
}
RankEvent done(int rank) {
  return {RankEvent::Kind::Message, rank, to_json(RankDone{}), 0, 0, {}};
}
RankEvent exited(int rank, int status) {
  return {RankEvent::Kind::Exited, rank, {}, status, 0, {}};
}
RankEvent killed(int rank) {
  return {RankEvent::Kind::Killed, rank, {}, 0, SIGKILL, {}};
}

// Two ranks, and what their launcher hears of them.
class HeardRanks : public launch::RankGroup {
 public:
  HeardRanks(std::deque<RankEvent> events, std::array<int, 2> trials) : events_(std::move(events)) {
    topology_.ranks_per_node = 2;
    for (std::size_t rank = 0; rank < progress_.size(); ++rank)
      progress_[rank].trial = trials[rank];
  }
  std::optional<RankEvent> next_event(double) override {
    if (events_.empty()) {
      steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(0.01));
      return std::nullopt;
    }
    RankEvent event = std::move(events_.front());
    events_.pop_front();
    if (event.kind != RankEvent::Kind::Message) running_.at(std::size_t(event.rank)) = false;
    return event;
  }
  void send(int, const nlohmann::json&) override {}
  const launch::RankProgress& progress(int rank) const override {
    return progress_.at(std::size_t(rank));
  }
  char process_state(int) const override { return 'S'; }
  bool running(int rank) const override { return running_.at(std::size_t(rank)); }
  const launch::Topology& topology() const override { return topology_; }

 private:
  launch::Topology topology_;
  std::array<launch::RankProgress, 2> progress_{};
  std::array<bool, 2> running_{true, true};
  std::deque<RankEvent> events_;
};

struct Heard {
  std::vector<std::pair<int, results::Status>> trials;  // order and status, as they ended
  std::string reason;                                   // of the last one that failed
};

// Runs `count` trials, orders from 0, on groups of ranks of which the n-th tells events[n];
// `trials`: which one each rank of the first group is in when it ends.
Heard run_trials(int count, std::vector<std::deque<RankEvent>> events,
                 std::array<int, 2> trials = {-1, -1}) {
  RunnableLaunch runnable = test::launch_of_two_ranks();
  for (int order = 0; order < count; ++order)
    runnable.spec.trials.push_back(test::trial_of(order, 1));
  std::size_t groups = 0;
  runnable.start_ranks = [&] {
    auto ranks = std::make_unique<HeardRanks>(events.at(groups), trials);
    ++groups;
    return ranks;
  };
  Heard heard;
  LaunchCallbacks callbacks;
  callbacks.trial_ended = [&](const results::TrialRecord& record) {
    heard.trials.emplace_back(record.order, record.status);
    if (record.status != results::Status::Ok) heard.reason = record.reason;
  };
  run_launch(runnable, callbacks);
  EXPECT_EQ(groups, events.size());
  return heard;
}

TEST(RunLaunch, RanksThatAreDoneMayEnd) {
  const Heard heard =
      run_trials(1, {{ran(0, 0), done(0), exited(0, 0), ran(1, 0), done(1), exited(1, 0)}});
  EXPECT_THAT(heard.trials, ElementsAre(Pair(0, results::Status::Ok)));
}

// Who leaves without a word, and well, would else be awaited for ever.
TEST(RunLaunch, RanksThatLeaveWithStatusZeroHaveFailed) {
  const Heard heard = run_trials(2, {{exited(0, 0), exited(1, 0)}});
  EXPECT_THAT(heard.trials,
              ElementsAre(Pair(0, results::Status::Failed), Pair(1, results::Status::Failed)));
  EXPECT_THAT(heard.reason, HasSubstr("[rank 0/2 node0] exited with status 0 in "));
}

TEST(RunLaunch, OneThatLeavesBetweenTrialsFailsTheNextOne) {
  const Heard heard = run_trials(2, {{ran(0, 0), ran(1, 0), exited(1, 0)}}, {0, 0});
  EXPECT_THAT(heard.trials,
              ElementsAre(Pair(0, results::Status::Ok), Pair(1, results::Status::Failed)));
  EXPECT_THAT(heard.reason, HasSubstr("[rank 1/2 node0] exited with status 0 in "));
}

// Rank 0 has not told of trial 0 yet when rank 1 dies in trial 1.
TEST(RunLaunch, AFailureIsOfTheTrialThatItWasIn) {
  const Heard heard =
      run_trials(3, {{ran(1, 0), killed(1)}, {ran(0, 0), ran(1, 0), ran(0, 2), ran(1, 2)}}, {0, 1});
  EXPECT_THAT(heard.trials,
              ElementsAre(Pair(1, results::Status::Failed), Pair(0, results::Status::Ok),
                          Pair(2, results::Status::Ok)));
  EXPECT_THAT(heard.reason, HasSubstr("[rank 1/2 node0] killed by signal 9"));
}

}  // namespace
}  // namespace gradsync::coordinate
