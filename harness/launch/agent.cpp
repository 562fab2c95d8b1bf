#include "harness/launch/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/utsname.h>

#include <fstream>
#include <optional>

#include "harness/base/errors.h"
#include "harness/launch/cgroup.h"
#include "harness/launch/cores.h"
#include "harness/launch/host.h"
#include "harness/launch/json_lines.h"
#include "harness/launch/local_ranks.h"
#include "harness/launch/newcomers.h"
#include "harness/launch/tcp.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;

// How often the leader hears where the ranks are. Rare, since it travels beside what is measured.
constexpr double kPagesEveryS = 0.25;

// The host's own network: every rank of a task at one address.
class HostFabric : public Fabric {
 public:
  HostFabric(const Topology& topology, std::string master_address, std::string own_address)
      : topology_(topology),
        master_address_(std::move(master_address)),
        own_address_(std::move(own_address)) {}
  Endpoint endpoint(int rank) const override {
    const std::string& address = rank == 0 ? master_address_ : own_address_;
    return {rank, topology_.node_of(rank), address, interface_of(address)};
  }
  int enter(int) const override { return 0; }
  json self_test(double) const override { return nullptr; }

 private:
  Topology topology_;
  std::string master_address_;
  std::string own_address_;
};

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "unknown";
}

// Of the kernel since it started, whatever the namespaces. Where it cannot be read, the host's
// name.
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
    leader_.send({{"hello", to_json(hello)}});
  }

  int run() {
    while (!end_) {
      wait();
      for (const json& message : leader_.read()) handle(message);
      if (!leader_.is_open() && !end_) {
        throw CommError("the leading task is gone; its own messages say why");
      }
      tell_pages();
    }
    return *end_;
  }

 private:
  // Until the leader says something, a rank does, or the pages are due.
  void wait() {
    if (!ranks_ || !anything_runs()) {
      pollfd wait{leader_.fd(), POLLIN, 0};
      if (leader_.wants_to_write()) wait.events |= POLLOUT;
      ::poll(&wait, 1, 1000);
    } else if (const auto event = ranks_->next_event(kPagesEveryS, leader_.fd())) {
      tell(*event);
    }
    leader_.flush();
  }

  void handle(const json& message) {
    if (message.contains("ping")) {
      leader_.send({{"pong", message.at("ping")}, {"clock_ns", clock_.now_ns()}});
    } else if (message.contains("start")) {
      start(message);
    } else if (message.contains("to")) {
      if (ranks_) ranks_->send(message.at("to"), message.at("message"));
    } else if (message.contains("stop")) {
      ranks_.reset();
      leader_.send({{"stopped", message.at("stop")}});
    } else if (message.contains("refused")) {
      throw ConfigError(message.at("refused").get<std::string>());
    } else if (message.contains("end")) {
      end_ = message.at("end").get<int>();
    }
  }

  void start(const json& message) {
    ranks_.reset();
    group_ = message.at("start");
    Topology topology;
    topology.nodes = message.at("topology").at("nodes");
    topology.ranks_per_node = message.at("topology").at("ranks_per_node");
    SpawnOptions spawn;
    spawn.command = options_.rank_command;
    spawn.environment = message.at("environment");
    // Rank 0's store takes a free port: the launcher's own may be in use, by us too.
    spawn.environment.emplace_back("MASTER_PORT", "");
    spawn.threads_per_rank = message.at("threads_per_rank");
    spawn.pin = message.at("pin");
    const auto master_address = message.at("master_address").get<std::string>();
    fabric_ = std::make_unique<HostFabric>(topology, master_address,
                                           ranks_address(reach_, master_address));
    try {
      ranks_ = std::make_unique<LocalRanks>(
          topology, *fabric_, spawn, RankRange{options_.place.first_rank, options_.place.ranks});
    } catch (const EnvironmentError& error) {
      leader_.send({{"group", group_}, {"unstartable", error.what()}});
    }
  }

  // Of an ending, the leader must know where the rank was by then.
  void tell(const RankEvent& event) {
    if (event.kind != RankEvent::Kind::Message) send_pages(clock_.now_ns());
    json message{{"group", group_}, {"rank", event.rank}};
    if (event.kind == RankEvent::Kind::Message) {
      message["message"] = event.message;
    } else if (event.kind == RankEvent::Kind::Exited) {
      message["exited"] = event.exit_code;
    } else {
      message["killed"] = event.signal;
    }
    leader_.send(message);
  }

  void tell_pages() {
    const std::int64_t now_ns = clock_.now_ns();
    if (ranks_ && seconds(now_ns - told_ns_) >= kPagesEveryS) send_pages(now_ns);
  }

  void send_pages(std::int64_t now_ns) {
    told_ns_ = now_ns;
    json pages = json::array();
    for (int rank = first(); rank < first() + options_.place.ranks; ++rank) {
      const RankPage& page = ranks_->page(rank);
      const std::int64_t progress_ns = page.progress_ns.load();
      pages.push_back({{"rank", rank},
                       {"trial", page.trial.load()},
                       {"step", page.step.load()},
                       {"micro_batch", page.micro_batch.load()},
                       {"activity", static_cast<std::uint32_t>(page.activity.load())},
                       {"collective", page.collective.load()},
                       {"completed", page.completed.load()},
                       // An age, since clocks of two hosts cannot be subtracted; null: never.
                       {"age_ns", progress_ns > 0 ? json(now_ns - progress_ns) : json(nullptr)},
                       {"state", static_cast<int>(ranks_->process_state(rank))}});
    }
    leader_.send({{"group", group_}, {"pages", pages}});
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
