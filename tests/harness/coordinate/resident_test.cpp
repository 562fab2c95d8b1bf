// Ranks that stay up between trials, as their launcher sees them; the ranks here are played.
#include <gtest/gtest.h>

#include <csignal>
#include <deque>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/coordinate/resident.h"
#include "tests/harness/coordinate/played.h"

namespace gradsync::coordinate {
namespace {

using launch::RankEvent;
using nlohmann::json;
using test::trial_message;
using test::trial_of;

// What the ranks do when asked to run their n-th trial.
enum class Does { Run, Die };

// Two ranks of one node that answer at once.
class PlayedRanks : public launch::RankGroup {
 public:
  explicit PlayedRanks(std::vector<Does> script) : script_(std::move(script)) {
    topology_.nodes = 1;
    topology_.ranks_per_node = 2;
  }

  std::optional<RankEvent> next_event(double timeout_s) override {
    if (events_.empty()) {
      steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(timeout_s));
      return std::nullopt;
    }
    RankEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  void send(int rank, const json& message) override {
    if (message.contains("launch")) {
      resident_ = message.at("launch").at("resident").get<bool>();
      tell(rank, to_json(RankReady{}));
    }
    if (!message.contains("trial")) return;
    const json& trial = message.at("trial");
    const Does does = script_.at(trial.at("order").get<std::size_t>());
    progress_.trial = trial.at("order").get<int>();
    if (does == Does::Run) {
      tell(rank, trial_message(rank, trial.at("order"), trial.at("steps")));
    } else if (rank == 1) {
      events_.push_back({RankEvent::Kind::Killed, rank, {}, 0, SIGKILL, {}});
    }
  }

  const launch::RankProgress& progress(int) const override { return progress_; }
  char process_state(int) const override { return 'S'; }
  bool running(int) const override { return true; }
  const launch::Topology& topology() const override { return topology_; }
  bool resident() const { return resident_; }

 private:
  void tell(int rank, json message) {
    events_.push_back({RankEvent::Kind::Message, rank, std::move(message), 0, 0, {}});
  }

  std::vector<Does> script_;
  launch::Topology topology_;
  launch::RankProgress progress_{};  // changed_ns is 0: no sign of life, ever
  std::deque<RankEvent> events_;
  bool resident_ = false;
};

RunnableLaunch launch_of(std::vector<Does> script, double timeout_s = 30) {
  RunnableLaunch runnable = test::launch_of_two_ranks();
  runnable.spec.timeout_s = timeout_s;
  runnable.start_ranks = [script] { return std::make_unique<PlayedRanks>(script); };
  return runnable;
}

TEST(ResidentRanks, TellTheirRanksThatTheyStay) {
  PlayedRanks* played = nullptr;
  RunnableLaunch runnable = launch_of({});
  runnable.start_ranks = [&] {
    auto ranks = std::make_unique<PlayedRanks>(std::vector<Does>{});
    played = ranks.get();
    return ranks;
  };
  const ResidentRanks ranks(runnable, nullptr);
  EXPECT_TRUE(played->resident());
  EXPECT_FALSE(ranks.failure());
}

TEST(ResidentRanks, RunOneTrialAfterTheOther) {
  int started = 0;
  RunnableLaunch runnable = launch_of({});
  runnable.start_ranks = [&] {
    ++started;
    return std::make_unique<PlayedRanks>(std::vector<Does>(3, Does::Run));
  };
  ResidentRanks ranks(runnable, nullptr);
  for (int turn = 0; turn < 3; ++turn) {
    const results::TrialRecord record = ranks.run(trial_of(turn, turn + 1));
    EXPECT_EQ(record.status, results::Status::Ok);
    EXPECT_EQ(record.order, turn);
    EXPECT_EQ(record.step_s, std::vector<double>(turn + 1, 2.0)) << "not the slower rank's";
  }
  EXPECT_EQ(started, 1);
}

TEST(ResidentRanks, ADeathIsTheTrialsStatusAndTheRanksAreGone) {
  ResidentRanks ranks(launch_of({Does::Run, Does::Die}), nullptr);
  EXPECT_EQ(ranks.run(trial_of(0, 1)).status, results::Status::Ok);
  EXPECT_FALSE(ranks.failure());
  const results::TrialRecord record = ranks.run(trial_of(1, 1));
  EXPECT_EQ(record.status, results::Status::Failed);
  EXPECT_TRUE(record.reason.starts_with("[rank 1/2 node0] killed by signal 9")) << record.reason;
  EXPECT_EQ(record.order, 1);
  ASSERT_TRUE(ranks.failure());
  EXPECT_EQ(ranks.failure()->reason, record.reason);
}

// Longer than a rank may be silent while it works.
TEST(ResidentRanks, MayBeIdleForLong) {
  constexpr double kTimeoutS = 0.5;
  constexpr double kIdleS = 3.5;  // over the timeout and the launcher's two seconds of slack
  ResidentRanks ranks(launch_of({Does::Run}, kTimeoutS), nullptr);
  steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(kIdleS));
  const results::TrialRecord record = ranks.run(trial_of(0, 1));
  EXPECT_EQ(record.status, results::Status::Ok) << record.reason;
}

TEST(ResidentRanks, TickMayEndTheWait) {
  const auto stop = [] { throw Interrupted(); };
  EXPECT_THROW(ResidentRanks(launch_of({}), stop), Interrupted);
}

TEST(ResidentRanks, AnInterruptEndsTheWait) {
  const std::atomic<bool> interrupted{true};
  RunnableLaunch runnable = launch_of({});
  runnable.interrupted = &interrupted;
  EXPECT_THROW(ResidentRanks(runnable, nullptr), Interrupted);
}

}  // namespace
}  // namespace gradsync::coordinate
