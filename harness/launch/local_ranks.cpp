#include "harness/launch/local_ranks.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <fstream>
#include <iterator>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/launch/cores.h"
#include "harness/launch/rank_process.h"

namespace gradsync::launch {

using nlohmann::json;

namespace {

constexpr double kGraceSeconds = 1;

RankEvent ending(int rank, int wait_status) {
  RankEvent event;
  event.rank = rank;
  if (WIFSIGNALED(wait_status)) {
    event.kind = RankEvent::Kind::Killed;
    event.signal = WTERMSIG(wait_status);
  } else {
    event.kind = RankEvent::Kind::Exited;
    event.exit_code = WEXITSTATUS(wait_status);
  }
  return event;
}

}  // namespace

struct LocalRanks::Impl {
  Topology topology;
  RankRange range;
  std::vector<std::unique_ptr<RankProcess>> ranks;
  std::deque<RankEvent> events;

  RankProcess& at(int rank) const {
    GRADSYNC_CHECK(rank, >=, range.first);
    GRADSYNC_CHECK(rank, <, range.first + static_cast<int>(ranks.size()));
    return *ranks[static_cast<std::size_t>(rank - range.first)];
  }
  // A lone rank of a task counts as what it is on its node: its neighbours are tasks beside it.
  int own_index(int rank) const {
    return range.count == 1 ? topology.local_rank_of(rank) : rank - range.first;
  }
  void start(const Fabric& fabric, const SpawnOptions& options);
  void stop();
  // Returns whether `wake_fd` (-1: none) can be read.
  bool wait_for_activity(double timeout_s, int wake_fd);
  void collect(int rank);
  bool anything_runs() const {
    return std::ranges::any_of(ranks, [](const auto& rank) { return rank->running(); });
  }
};

void LocalRanks::Impl::start(const Fabric& fabric, const SpawnOptions& options) {
  const std::vector<int> cpus = options.pin ? usable_cpus() : std::vector<int>{};
  const std::string threads = std::to_string(options.threads_per_rank);
  for (int rank = range.first; rank < range.first + range.count; ++rank) {
    const Endpoint endpoint = fabric.endpoint(rank);
    RankStart start;
    start.command = options.command;
    start.environment = {{"OMP_NUM_THREADS", threads},
                         {"MKL_NUM_THREADS", threads},
                         {"RANK", std::to_string(rank)},
                         {"LOCAL_RANK", std::to_string(topology.local_rank_of(rank))},
                         {"WORLD_SIZE", std::to_string(topology.world_size())},
                         {"LOCAL_WORLD_SIZE", std::to_string(topology.ranks_per_node)},
                         {"GROUP_RANK", std::to_string(topology.node_of(rank))},
                         {"MASTER_ADDR", fabric.endpoint(0).address},
                         {"GRADSYNC_ADDRESS", endpoint.address},
                         {"GRADSYNC_INTERFACE", endpoint.interface}};
    start.environment.insert(start.environment.end(), options.environment.begin(),
                             options.environment.end());
    if (!cpus.empty()) {
      // On one machine as a cluster, nodes share the cores: count over the ranks started here.
      start.cpu = cpus[static_cast<std::size_t>(own_index(rank)) % cpus.size()];
    }
    ranks.push_back(std::make_unique<RankProcess>(rank, fabric, std::move(start)));
  }
}

void LocalRanks::Impl::stop() {
  for (const auto& rank : ranks) rank->signal(SIGTERM);
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(kGraceSeconds);
  for (const auto& rank : ranks) {
    rank->wait(std::max(0.0, seconds(deadline_ns - steady_clock().now_ns())));
  }
  ranks.clear();
}

bool LocalRanks::Impl::wait_for_activity(double timeout_s, int wake_fd) {
  std::vector<pollfd> waits;
  if (wake_fd >= 0) waits.push_back({wake_fd, POLLIN, 0});
  for (const auto& rank : ranks) {
    if (!rank->running()) continue;
    waits.push_back({rank->pid_fd(), POLLIN, 0});
    const short interest = rank->wants_to_write() ? POLLIN | POLLOUT : POLLIN;
    if (rank->control_fd() >= 0) waits.push_back({rank->control_fd(), interest, 0});
  }
  const int timeout_ms = static_cast<int>(std::clamp(timeout_s, 0.0, 3600.0) * 1e3 + 0.999);
  ::poll(waits.data(), waits.size(), timeout_ms);
  return wake_fd >= 0 && waits.front().revents != 0;
}

// Moves what `rank` has to tell into `events`. The end is looked up first and queued last: whatever
// the rank wrote before it died is in the channel by then.
void LocalRanks::Impl::collect(int rank) {
  RankProcess& process = at(rank);
  if (!process.running()) return;
  const std::optional<int> ended = process.reap();
  process.flush();
  for (json& message : process.read_messages()) {
    events.push_back({RankEvent::Kind::Message, rank, std::move(message), 0, 0, {}});
  }
  if (ended) events.push_back(ending(rank, *ended));
}

LocalRanks::LocalRanks(const Topology& topology, const Fabric& fabric, const SpawnOptions& options)
    : LocalRanks(topology, fabric, options, {0, topology.world_size()}) {}

LocalRanks::LocalRanks(const Topology& topology, const Fabric& fabric, const SpawnOptions& options,
                       RankRange range)
    : impl_(std::make_unique<Impl>()) {
  GRADSYNC_CHECK(options.command.size(), >, 0U);
  impl_->topology = topology;
  impl_->range = range;
  impl_->start(fabric, options);
}

LocalRanks::~LocalRanks() {
  impl_->stop();
}

std::optional<RankEvent> LocalRanks::next_event(double timeout_s) {
  return next_event(timeout_s, -1);
}

std::optional<RankEvent> LocalRanks::next_event(double timeout_s, int wake_fd) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(timeout_s);
  bool time_left = true;
  while (impl_->events.empty() && impl_->anything_runs() && time_left) {
    const double left_s = seconds(deadline_ns - steady_clock().now_ns());
    time_left = left_s > 0;  // with none left, look once more without waiting
    if (impl_->wait_for_activity(left_s, wake_fd)) time_left = false;
    const RankRange range = impl_->range;
    for (int rank = range.first; rank < range.first + range.count; ++rank) impl_->collect(rank);
  }
  if (impl_->events.empty()) return std::nullopt;
  RankEvent event = std::move(impl_->events.front());
  impl_->events.pop_front();
  return event;
}

void LocalRanks::send(int rank, const json& message) {
  impl_->at(rank).send(message);
}

const RankProgress& LocalRanks::progress(int rank) const {
  return impl_->at(rank).progress();
}

char LocalRanks::process_state(int rank) const {
  if (!running(rank)) return 0;
  std::ifstream file(fmt::format("/proc/{}/stat", pid(rank)));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // "PID (NAME) STATE ...", and NAME may hold anything, parentheses too.
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '\0' : text[name_end + 2];
}

pid_t LocalRanks::pid(int rank) const {
  return impl_->at(rank).pid();
}
bool LocalRanks::running(int rank) const {
  return impl_->at(rank).running();
}

const Topology& LocalRanks::topology() const {
  return impl_->topology;
}

int LocalRanks::size() const {
  return impl_->range.count;
}

std::string RankGroup::label(int rank) const {
  return fmt::format("rank {}/{} node{}", rank, world_size(), topology().node_of(rank));
}

}  // namespace gradsync::launch
