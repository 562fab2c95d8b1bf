#include "benchmarks/micro/ranks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string_view>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/log.h"
#include "harness/base/messages.h"
#include "harness/base/program_files.h"
#include "harness/comm/process_groups.h"
#include "harness/comm/store.h"
#include "harness/launch/control_channel.h"
#include "harness/launch/fabric.h"
#include "harness/launch/local_ranks.h"
#include "harness/launch/store_messages.h"

namespace gradsync::micro {

// What rank 0's reporter prints.
struct Output {
  std::string text;
};
GRADSYNC_MESSAGE(Output, "event", "output", text)

namespace {

using launch::RankEvent;
using RankMessage = std::variant<Output, launch::StoreOpened>;

constexpr double kTimeoutS = 60;    // of a collective
constexpr double kLinkTestS = 0.4;  // as gradsync's own runs
constexpr std::string_view kTopology = "--topology=";

// Sends what another reporter prints to the parent, whose standard output is the user's.
class ReportToParent : public benchmark::BenchmarkReporter {
 public:
  // A null `control`: this rank prints nothing.
  explicit ReportToParent(launch::ControlChannel* control)
      : control_(control), inner_(benchmark::CreateDefaultDisplayReporter()) {
    inner_->SetOutputStream(&text_);
    inner_->SetErrorStream(&text_);
  }
  bool ReportContext(const Context& context) override {
    const bool go_on = inner_->ReportContext(context);
    send();
    return go_on;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    inner_->ReportRuns(runs);
    send();
  }
  void Finalize() override {
    inner_->Finalize();
    send();
  }

 private:
  void send() {
    if (control_ != nullptr) control_->send(write_fields(Output{text_.str()}));
    text_.str("");
  }
  launch::ControlChannel* control_;
  std::unique_ptr<benchmark::BenchmarkReporter> inner_;
  std::ostringstream text_;
};

// Adds what was run to the JSON.
void add_context(const launch::RankPlace& place) {
  const char* of_node = std::getenv("LOCAL_WORLD_SIZE");
  const int ranks_per_node = of_node != nullptr ? std::atoi(of_node) : place.world_size;
  benchmark::AddCustomContext("nodes", std::to_string(place.world_size / ranks_per_node));
  benchmark::AddCustomContext("ranks_per_node", std::to_string(ranks_per_node));
}

int run_rank(int argc, char** argv, const std::function<void(const Ranks&)>& register_benchmarks) {
  c10::initLogging();  // reads TORCH_CPP_LOG_LEVEL, which Python does on import
  launch::ControlChannel control;
  const auto place = launch::rank_place_from_environment();
  at::set_num_threads(1);
  comm::Ledger ledger(steady_clock(), &control.progress());
  comm::GroupOptions options;
  options.rank = place.rank;
  options.world_size = place.world_size;
  options.address = place.address;
  options.timeout_s = kTimeoutS;
  const Ranks ranks{
      place.rank, place.world_size,
      comm::make_process_group(comm::make_store(place, control, kTimeoutS), options, ledger),
      ledger};
  register_benchmarks(ranks);
  add_context(place);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) ::_exit(2);
  ReportToParent reporter(place.rank == 0 ? &control : nullptr);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  comm::barrier(*ranks.group);
  // Not a normal exit: a peer may be gone first, and tearing down the group would then block.
  ::_exit(0);
}

// Relays between the ranks until all have ended. Returns the worst of their exit statuses.
int watch(launch::LocalRanks& ranks) {
  int worst = 0;
  int running = ranks.world_size();
  while (running > 0) {
    const auto event = ranks.next_event(2 * kTimeoutS);
    if (!event) throw CommError(fmt::format("no rank said anything for {} s", 2 * kTimeoutS), true);
    if (event->kind == RankEvent::Kind::Message) {
      std::visit(Overloaded{[](const Output& said) { std::cout << said.text << std::flush; },
                            [&](const launch::StoreOpened& said) {
                              for (int rank = 1; rank < ranks.world_size(); ++rank) {
                                ranks.send(rank, write_fields(launch::StorePort{said.port}));
                              }
                            }},
                 read_message<RankMessage>(event->message, ranks.label(event->rank)));
      continue;
    }
    --running;
    const bool exited = event->kind == RankEvent::Kind::Exited;
    if (!exited)
      log::error(
          fmt::format("{} was killed by signal {}", ranks.label(event->rank), event->signal));
    worst = std::max(worst, exited ? event->exit_code : 1);
    if (worst != 0) break;  // the others would wait for it
  }
  return worst;
}

int run_parent(int argc, char** argv) {
  std::string topology_name = "1x2";
  launch::SpawnOptions spawn;
  spawn.command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  spawn.environment = {{"TORCH_CPP_LOG_LEVEL", "ERROR"}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kTopology)) {
      topology_name = argument.substr(kTopology.size());
    } else {
      spawn.command.emplace_back(argument);
    }
  }
  const auto topology = launch::read_topology(topology_name, data_file("benchmarks/topologies"));
  const auto fabric = launch::make_fabric(topology);
  if (const auto link = fabric->self_test(kLinkTestS)) {
    log::info(fmt::format("{}: the link carries {:.4f} GB/s of payload by plain TCP", topology_name,
                          link->measured_payload_bits_per_s / 8e9));
  }
  launch::LocalRanks ranks(topology, *fabric, spawn);
  return watch(ranks);
}

}  // namespace

void time_slowest(benchmark::State& state, const Ranks& ranks, const std::function<void()>& body) {
  for (auto _ : state) {
    comm::barrier(*ranks.group);
    const std::int64_t start_ns = steady_clock().now_ns();
    body();
    std::vector<at::Tensor> elapsed_s{
        at::full({1}, seconds(steady_clock().now_ns() - start_ns), at::kDouble)};
    c10d::AllreduceOptions slowest;
    slowest.reduceOp = c10d::ReduceOp::MAX;
    ranks.group->allreduce(elapsed_s, slowest)->wait();
    state.SetIterationTime(elapsed_s.front().item<double>());
  }
  ranks.ledger.settle(kTimeoutS);
  ranks.ledger.clear();
}

int run_ranked(int argc, char** argv,
               const std::function<void(const Ranks&)>& register_benchmarks) {
  log::configure(false);
  try {
    const bool started_as_rank = std::getenv("GRADSYNC_CONTROL_FD") != nullptr;
    return started_as_rank ? run_rank(argc, argv, register_benchmarks) : run_parent(argc, argv);
  } catch (const ConfigError& error) {
    log::error(error.what());
    return static_cast<int>(ExitStatus::Config);
  } catch (const EnvironmentError& error) {
    log::error(error.what());
    return static_cast<int>(ExitStatus::Unfit);
  } catch (const std::exception& error) {
    log::error(error.what());
    return 1;
  }
}

}  // namespace gradsync::micro
