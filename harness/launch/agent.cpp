#include "harness/launch/agent.h"

#include <poll.h>
#include <sys/utsname.h>

#include <fstream>
#include <optional>

#include "harness/base/errors.h"
#include "harness/base/messages.h"
#include "harness/launch/agent_messages.h"
#include "harness/launch/cgroup.h"
#include "harness/launch/cores.h"
#include "harness/launch/host.h"
#include "harness/launch/host_address.h"
#include "harness/launch/json_lines.h"
#include "harness/launch/local_ranks.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;

// How often the leader hears where the ranks are. Rare, since it travels beside what is measured.
constexpr double kStandingsEveryS = 0.25;

// The host's own network: every rank of a task at one address.
class HostFabric : public Fabric {
 public:
  HostFabric(const Topology& topology, std::string master_address, std::string own_address)
      : topology_(topology),
        master_address_(std::move(master_address)),
        own_address_(std::move(own_address)) {}
  Endpoint endpoint(int rank) const override {
    const std::string& address = rank == 0 ? master_address_ : own_address_;
    return {rank, topology_.node_of(rank), address, ""};
  }
  int enter(int) const override { return 0; }
  std::optional<LinkCarried> self_test(double) const override { return std::nullopt; }

 private:
  Topology topology_;
  std::string master_address_;
  std::string own_address_;
};

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "unknown";
}

// Returns the id of the running kernel, the same in all namespaces; the host's name if it cannot be
// read.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return file >> id ? id : host_name();
}

class Agent {
 public:
  Agent(UniqueFd connection, const AgentOptions& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        reach_{peer_address(connection.get()), own_address(connection.get()), options.address},
        leader_(std::move(connection), "the leading task") {
    end_when_lost(leader_.fd(), options.lost_after_s);
    Hello hello;
    hello.task = options.place.task;
    hello.host = host_name();
    hello.machine = boot_id();
    hello.run_id = options.place.run_id;
    hello.identity = options.identity;
    for (const Processor& processor : usable_processors()) {
      hello.cpus.push_back(processor.cpu);
      hello.cores.push_back(processor.core);
    }
    hello.cpu_quota = Cgroups().cpu_quota();
    hello.memory_available_bytes = memory_available_bytes();
    hello.address = options.address;
    tell(hello);
  }

  int run() {
    while (!end_) {
      wait();
      for (const json& line : leader_.read()) handle(line);
      if (!leader_.is_open() && !end_) {
        throw CommError("the leading task is gone; its own messages say why");
      }
      tell_standings_now_and_then();
    }
    return *end_;
  }

 private:
  // Until the leader says something, a rank does, or the standings are due.
  void wait() {
    if (!ranks_ || !anything_runs()) {
      pollfd wait{leader_.fd(), POLLIN, 0};
      if (leader_.wants_to_write()) wait.events |= POLLOUT;
      ::poll(&wait, 1, 1000);
    } else if (const auto event = ranks_->next_event(kStandingsEveryS, leader_.fd())) {
      tell_of(*event);
    }
    leader_.flush();
  }

  void tell(const AgentMessage& message) { leader_.send(to_json(message)); }

  void handle(const json& line) {
    std::visit(Overloaded{[](const Refusal& said) { throw ConfigError(said.why); },
                          [this](const AskClock& said) {
                            tell(ClockReading{said.number, clock_.now_ns()});
                          },
                          [this](const StartRanks& said) { start(said); },
                          [this](const ToRank& said) {
                            if (ranks_) ranks_->send(said.rank, said.message);
                          },
                          [this](const StopRanks& said) {
                            ranks_.reset();
                            tell(Stopped{said.group});
                          },
                          [this](const EndOfJob& said) { end_ = said.exit_status; }},
               leader_message(line));
  }

  void start(const StartRanks& said) {
    ranks_.reset();
    group_ = said.group;
    SpawnOptions spawn;
    spawn.command = options_.rank_command;
    spawn.environment.assign(said.environment.begin(), said.environment.end());
    // Rank 0's store takes a free port: the launcher's own may be in use, by us too.
    spawn.environment.emplace_back("MASTER_PORT", "");
    spawn.threads_per_rank = said.threads_per_rank;
    spawn.pin = said.pin;
    fabric_ = std::make_unique<HostFabric>(said.topology, said.master_address,
                                           ranks_address(reach_, said.master_address));
    try {
      ranks_ =
          std::make_unique<LocalRanks>(said.topology, *fabric_, spawn,
                                       RankRange{options_.place.first_rank, options_.place.ranks});
    } catch (const EnvironmentError& error) {
      tell(Unstartable{group_, error.what()});
    }
  }

  // Tells the leader of an event. When a rank ended, the leader must first know where the rank was.
  void tell_of(const RankEvent& event) {
    if (event.kind == RankEvent::Kind::Message) {
      tell(RankSaid{group_, event.rank, event.message});
      return;
    }
    tell_standings(clock_.now_ns());
    if (event.kind == RankEvent::Kind::Exited) {
      tell(RankExited{group_, event.rank, event.exit_code});
    } else {
      tell(RankKilled{group_, event.rank, event.signal});
    }
  }

  void tell_standings_now_and_then() {
    const std::int64_t now_ns = clock_.now_ns();
    if (ranks_ && seconds(now_ns - told_ns_) >= kStandingsEveryS) tell_standings(now_ns);
  }

  void tell_standings(std::int64_t now_ns) {
    told_ns_ = now_ns;
    Standings standings{group_, {}};
    for (int rank = first(); rank < first() + options_.place.ranks; ++rank) {
      standings.ranks.push_back(standing_of(rank, now_ns));
    }
    tell(standings);
  }

  Standing standing_of(int rank, std::int64_t now_ns) const {
    const RankProgress& progress = ranks_->progress(rank);
    const std::int64_t changed_ns = progress.changed_ns.load();
    Standing standing;
    standing.rank = rank;
    standing.trial = progress.trial.load();
    standing.step = progress.step.load();
    standing.micro_batch = progress.micro_batch.load();
    standing.activity = static_cast<std::uint32_t>(progress.activity.load());
    standing.collective = progress.collective.load();
    standing.completed = progress.completed.load();
    if (changed_ns > 0) standing.age_ns = now_ns - changed_ns;
    standing.state = static_cast<unsigned char>(ranks_->process_state(rank));
    return standing;
  }

  int first() const { return options_.place.first_rank; }
  bool anything_runs() const {
    for (int rank = first(); rank < first() + options_.place.ranks; ++rank) {
      if (ranks_->running(rank)) return true;
    }
    return false;
  }

  const AgentOptions& options_;
  const Clock& clock_;
  Reach reach_;
  JsonLines leader_;
  int group_ = -1;
  std::unique_ptr<HostFabric> fabric_;
  std::unique_ptr<LocalRanks> ranks_;
  std::optional<int> end_;
  std::int64_t told_ns_ = 0;
};

}  // namespace

int run_agent(UniqueFd connection, const AgentOptions& options, const Clock& clock) {
  return Agent(std::move(connection), options, clock).run();
}

}  // namespace gradsync::launch
