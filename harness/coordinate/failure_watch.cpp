#include "harness/coordinate/failure_watch.h"

#include <fmt/format.h>
#include <csignal>
#include <cstring>

#include "harness/base/clock.h"
#include "harness/base/errors.h"

namespace gradsync::coordinate {

using launch::RankEvent;

void FailureWatch::keep(Failure failure) {
  if (!cause_ || failure.blame > cause_->blame) cause_ = std::move(failure);
}

int FailureWatch::order_of(int rank) const {
  return group_.progress(rank).trial.load();
}

void FailureWatch::note(int rank, const RankFailure& said) {
  reported_.insert(rank);
  // An error that the user must fix is the same for every rank, and is worded as if the launcher
  // had seen it. A rank that is out of memory says in more detail where.
  std::string reason = said.what;
  if (said.status != "config" && said.status != "unfit") {
    reason = fmt::format("[{}] {}", group_.label(rank), said.what);
    if (said.status != "oom") {
      reason += fmt::format(" ({})", launch::describe(group_.progress(rank)));
    }
  }
  keep({said.by_peer ? Blame::Peer : Blame::Own, said.status, std::move(reason), said.order,
        said.oom_place});
}

void FailureWatch::note(const RankEvent& event) {
  const std::string label = fmt::format("[{}] ", group_.label(event.rank));
  const std::string place = launch::describe(group_.progress(event.rank));
  if (event.kind == RankEvent::Kind::Killed) {
    const char* hint = event.signal == SIGKILL ? "; the kernel does this when memory runs out" : "";
    keep({Blame::Died, "failed",
          fmt::format("{}killed by signal {} ({}) in {}{}", label, event.signal,
                      strsignal(event.signal), place, hint),
          order_of(event.rank)});
  } else if (event.kind == RankEvent::Kind::Lost) {
    keep({Blame::Died, "failed", fmt::format("{}{} in {}", label, event.lost, place),
          order_of(event.rank)});
  } else if (!reported_.contains(event.rank) &&
             (event.exit_code != 0 || !done_.contains(event.rank))) {
    keep({Blame::Hang, "failed",
          fmt::format("{}exited with status {} in {}", label, event.exit_code, place),
          order_of(event.rank)});
  }
}

void FailureWatch::note_hangs(std::int64_t now_ns, std::int64_t started_ns, double timeout_s) {
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (!group_.running(rank)) continue;
    const std::int64_t seen_ns = std::max(started_ns, group_.progress(rank).changed_ns.load());
    if (seconds(now_ns - seen_ns) < timeout_s) continue;
    keep({Blame::Hang, "timeout",
          fmt::format("[{}] no sign of life for {:.0f} s in {}", group_.label(rank),
                      seconds(now_ns - seen_ns), launch::describe(group_.progress(rank))),
          order_of(rank)});
  }
}

void FailureWatch::note_stopped() {
  for (int rank = 0; rank < group_.size(); ++rank) {
    const char state = group_.process_state(rank);
    if (state != 'T' && state != 't') continue;
    keep({Blame::Stopped, "timeout",
          fmt::format("[{}] is stopped (SIGSTOP) in {}", group_.label(rank),
                      launch::describe(group_.progress(rank))),
          order_of(rank)});
  }
}

void throw_if_general(const Failure& failure) {
  if (failure.status == "config") throw ConfigError(failure.reason);
  if (failure.status == "internal") throw InternalError(failure.reason);
  if (failure.status == "unfit") throw EnvironmentError(failure.reason);
}

}  // namespace gradsync::coordinate
