// Which of several failures came first? When one rank dies, its peers fail too, a moment later and
// for no reason of their own; the order in which the launcher hears of them says little.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "harness/coordinate/rank_messages.h"
#include "harness/launch/rank_group.h"
#include "harness/results/records.h"

namespace gradsync::coordinate {

// How surely a failure is a cause and not a consequence; larger is surer.
enum class Blame : int { Peer, Hang, Own, Stopped, Died };

struct Failure {
  Blame blame = Blame::Peer;
  std::string status = "failed";  // RankFailure::status
  std::string reason;             // "[rank 1/4 node0] ..."
  int order = -1;                 // trial it happened in; -1: before the first
  std::optional<results::OomPlace> oom_place = std::nullopt;  // of an "oom" in a micro-batch
};

class FailureWatch {
 public:
  explicit FailureWatch(const launch::RankGroup& group) : group_(group) {}

  // Takes note of what a rank says before it gives up.
  void note(int rank, const RankFailure& said);

  // Takes note of a death, or of an exit that no message announced: a rank that ends before it is
  // done has failed, also with status 0.
  void note(const launch::RankEvent& event);

  // Takes note that a rank has run all of its trials: its exit is no news.
  void note_done(int rank) { done_.insert(rank); }

  // Looks for a rank without a sign of life for `timeout_s`; `now_ns` and the ranks share a clock.
  void note_hangs(std::int64_t now_ns, std::int64_t started_ns, double timeout_s);

  // Looks for stopped processes: called once a failure is known, since that may be its cause.
  void note_stopped();

  // The failure most likely to be the first cause.
  const std::optional<Failure>& first_cause() const { return cause_; }

 private:
  void keep(Failure failure);
  int order_of(int rank) const;

  const launch::RankGroup& group_;
  std::set<int> reported_;  // ranks that said why they end: their exit is expected
  std::set<int> done_;
  std::optional<Failure> cause_;
};

// Throws what no other trial would be spared from, which ends a plan: ConfigError, InternalError or
// EnvironmentError, with the failure's reason. Returns where the failure is of one trial.
void throw_if_general(const Failure& failure);

}  // namespace gradsync::coordinate
