#include "harness/paper/standins/nccl/groups.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "harness/paper/standins/streams.h"

namespace gradsync::paper::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// How long a rank sleeps before it looks whether another has died; the second, where it may listen
// to one meeting only, and waits in several.
constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::milliseconds kLookAtMany{1};

struct Group {
  int depth = 0;
  std::vector<Step> setups;
  std::vector<Step> steps;
  void* stream = nullptr;  // of the first step
  ncclResult_t result = ncclSuccess;
};

Group& group() {
  thread_local Group open;
  return open;
}

// A step that did not get on, and where it is.
struct Stuck {
  Wait wait;
  bool is_setup;
};

// Returns why there is nothing to wait for any more.
std::optional<Failure> reason_to_stop(const Stuck& stuck, Clock::time_point since) {
  const Wait& wait = stuck.wait;
  const Seat& seat = wait.comm->meeting.seat(wait.seat);
  const auto deadline = wait.comm->settings.deadline;
  const std::string rank = "rank " + std::to_string(wait.comm->rank_of(wait.seat));
  const auto gone = [&](const auto&... how) {
    return Failure(ncclRemoteError, rank, how..., " and never came to ", wait.what);
  };
  if (wait.comm->aborted) {
    return Failure(ncclSystemError, "rank ", wait.comm->place.rank, " aborted the communicator; ",
                   rank, " had not come to ", wait.what);
  }
  if (!stuck.is_setup && wait.comm->failure()) return wait.comm->failure();
  if (seat.presence == Presence::kAborted) return gone(" aborted the communicator");
  if (seat.presence == Presence::kLeft) return gone(" destroyed the communicator");
  if (seat.presence == Presence::kPresent && !seat.alive()) {
    return gone(" (process ", seat.process, ") ended");
  }
  if (Clock::now() - since < deadline) return std::nullopt;
  return Failure(ncclSystemError, rank, " never came to ", wait.what, " within ", deadline.count(),
                 " s (GRADSYNC_PAPER_DEADLINE_S)");
}

std::optional<Failure> reason_to_stop(const std::vector<Stuck>& stuck, Clock::time_point since) {
  for (const Stuck& one : stuck) {
    if (auto reason = reason_to_stop(one, since)) return reason;
  }
  return std::nullopt;
}

// Advances each step that is the first of its lane, and drops those that are done. Returns the
// others.
std::vector<Stuck> advance(std::vector<Step>& steps) {
  std::vector<Stuck> stuck;
  for (std::size_t i = 0; i < steps.size();) {
    const bool is_first =
        std::none_of(steps.begin(), steps.begin() + static_cast<long>(i), [&](const Step& earlier) {
          return earlier.comm == steps[i].comm && earlier.lane == steps[i].lane;
        });
    const auto wait = is_first ? steps[i].advance() : Wait{};
    if (is_first && !wait) {
      steps.erase(steps.begin() + static_cast<long>(i));
      continue;
    }
    if (is_first) stuck.push_back({*wait, steps[i].lane == kSetupLane});
    ++i;
  }
  return stuck;
}

void run_all(std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (step.lane == kSetupLane) continue;
    if (auto failure = step.comm->failure()) throw Failure(*failure);
  }
  const auto since = Clock::now();
  Communicator listened;
  bool told_to_stop = false;
  while (!steps.empty()) {
    const std::uint32_t heard = listened ? listened->meeting.bell() : 0;
    const std::size_t before = steps.size();
    const std::vector<Stuck> stuck = advance(steps);
    if (steps.size() < before) {
      told_to_stop = false;
      continue;
    }
    if (auto reason = reason_to_stop(stuck, since)) {
      if (told_to_stop) throw Failure(*reason);
      told_to_stop = true;  // a rank may have come, and left, since the steps looked: once more
      continue;
    }
    const Communicator first = stuck.front().wait.comm;
    if (std::exchange(listened, first) != first) continue;
    const bool all_here = std::all_of(stuck.begin(), stuck.end(),
                                      [&](const Stuck& one) { return one.wait.comm == first; });
    listened->meeting.listen(heard, all_here ? kLook : kLookAtMany);
  }
}

void run(std::vector<Step> steps) {
  try {
    run_all(steps);
  } catch (const Failure& failure) {
    for (const Step& step : steps) step.comm->fail(failure);
    throw;
  }
}

// A failure of what a graph launches later goes to the communicator alone: no call returns it.
void launch(std::vector<Step> steps, void* stream) {
  if (steps.empty()) return;
  auto failure = std::make_shared<std::optional<Failure>>();
  enqueue(stream, [steps = std::move(steps), failure] {
    try {
      run(steps);
    } catch (const Failure& what) {
      *failure = what;
    }
  });
  if (*failure) throw Failure(**failure);
}

// Returns this thread's group once its outermost end is reached; the thread has none then.
std::optional<Group> closed_group() {
  if (group().depth == 0) throw Failure(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group().depth > 0) return std::nullopt;
  return std::exchange(group(), Group{});
}

}  // namespace

void perform(Step step, void* stream) {
  if (group().depth > 0) {
    if (group().steps.empty()) group().stream = stream;
    auto& steps = step.lane == kSetupLane ? group().setups : group().steps;
    steps.push_back(std::move(step));
  } else if (step.lane == kSetupLane) {
    run({std::move(step)});
  } else {
    launch({std::move(step)}, stream);
  }
}

void fail_group(ncclResult_t result) {
  if (group().depth > 0 && group().result == ncclSuccess) group().result = result;
}

}  // namespace gradsync::paper::nccl

using namespace gradsync::paper::nccl;  // NOLINT: what follows is NCCL's interface

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's
extern "C" {

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return answer([] {
    auto ended = closed_group();
    if (!ended) return;
    if (ended->result != ncclSuccess) throw Failure(ended->result, last_error());
    run(std::move(ended->setups));
    launch(std::move(ended->steps), ended->stream);
  });
}

#if NCCL_VERSION_CODE >= 22200
// Nothing has a time on paper: the estimate stays undefined.
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return answer([&] {
    closed_group();
    if (info != nullptr) info->estimatedTime = NCCL_UNDEF_FLOAT;
  });
}
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
