#include "tests/harness/predict/second_opinion/cases.h"

#include <fmt/format.h>

namespace gradsync::predict::second_opinion {
namespace {

constexpr double kGigabit = 1e9 / 8;
constexpr double kMega = 1e6;
const Link kFast{100 * kGigabit, 5e-6, 0};  // inside a node
const Link kSlow{10 * kGigabit, 50e-6, 0};  // between nodes
const Link kNarrow{kGigabit, 50e-6, 0};     // between nodes, of a step that waits for it

Network network_of(int nodes, int ranks_per_node, const Link& inter) {
  Network network;
  network.nodes = nodes;
  network.ranks_per_node = ranks_per_node;
  network.intra = kFast;
  network.inter = inter;
  return network;
}

std::string size_text(double bytes) {
  return bytes < kMega ? fmt::format("{:g} kB", bytes / 1e3)
                       : fmt::format("{:g} MB", bytes / kMega);
}

void add_rings(std::vector<Case>& cases) {
  for (const auto& [nodes, per_node] :
       {std::pair{2, 1}, {4, 1}, {8, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 2}, {2, 4}, {4, 2}}) {
    for (const double bytes : {64e3, kMega, 25 * kMega}) {
      cases.push_back({fmt::format("ring, all_reduce of {}", size_text(bytes)),
                       network_of(nodes, per_node, kSlow),
                       Collective{Group::World, Operation::AllReduce, bytes}});
    }
  }
  for (const auto& [nodes, per_node] : {std::pair{4, 1}, {1, 4}, {2, 4}}) {
    for (const auto& [name, operation] : {std::pair{"all_gather", Operation::AllGather},
                                          {"reduce_scatter", Operation::ReduceScatter}}) {
      cases.push_back({fmt::format("ring, {} of 25 MB", name), network_of(nodes, per_node, kSlow),
                       Collective{Group::World, operation, 25 * kMega}});
    }
  }
}

void add_groups(std::vector<Case>& cases) {
  for (const auto& [nodes, per_node] : {std::pair{2, 2}, {2, 4}, {4, 2}}) {
    const Network network = network_of(nodes, per_node, kSlow);
    cases.push_back({"all_gather of 25 MB inside each node", network,
                     Collective{Group::WithinNode, Operation::AllGather, 25 * kMega}});
    cases.push_back({"all_reduce of 25 MB across nodes, a ring for each rank of a node", network,
                     Collective{Group::AcrossNodes, Operation::AllReduce, 25 * kMega}});
  }
}

void add_algorithms(std::vector<Case>& cases) {
  for (const auto& [nodes, per_node] : {std::pair{2, 2}, {2, 4}, {4, 2}}) {
    Network network = network_of(nodes, per_node, kSlow);
    network.algorithm = Algorithm::TwoLevel;
    cases.push_back({"two levels, all_reduce of 25 MB", network,
                     Collective{Group::World, Operation::AllReduce, 25 * kMega}});
  }
  for (const int nodes : {2, 4, 8}) {
    Network network = network_of(nodes, 1, kSlow);
    network.algorithm = Algorithm::Tree;
    cases.push_back({"two trees, all_reduce of 100 MB", network,
                     Collective{Group::World, Operation::AllReduce, 100 * kMega}});
  }
}

void add_steps(std::vector<Case>& cases, const StepModel& model) {
  const auto add = [&](const std::string& what, const Network& network, StepOptions options,
                       int at_a_time) {
    cases.push_back({what, network, Step{model, std::move(options), at_a_time}});
  };
  const std::vector<bool> once{true};
  const std::vector<bool> each_of_two{true, true};
  const std::vector<bool> last_of_two{false, true};
  for (const auto& [nodes, per_node] : {std::pair{2, 1}, {4, 1}, {8, 1}, {2, 2}}) {
    for (const Link& inter : {kSlow, kNarrow}) {
      const Network network = network_of(nodes, per_node, inter);
      const std::string rate = fmt::format("{:g} Gbit/s", std::round(inter.bytes_per_s / kGigabit));
      StepOptions options;
      options.syncs = each_of_two;
      add(fmt::format("step, DDP, 2 synchronizations, {}", rate), network, options, 1);
      options.syncs = once;
      options.buckets = {1'000'000, 1'000'000};
      add(fmt::format("step, DDP, buckets of 1 MB, {}", rate), network, options, 1);
      add(fmt::format("step, DDP, buckets of 1 MB, two at a time, {}", rate), network, options, 2);
      StepOptions sharded;
      sharded.wrapper = "fsdp";
      sharded.syncs = last_of_two;
      add(fmt::format("step, FSDP, no_sync, {}", rate), network, sharded, 1);
    }
  }
}

}  // namespace

std::vector<Case> cases(const models::Profile& profile) {
  std::vector<Case> cases;
  add_rings(cases);
  add_groups(cases);
  add_algorithms(cases);
  add_steps(cases, step_model_of(profile, 1));
  return cases;
}

double closed_form_s(const Case& of) {
  if (const auto* collective = std::get_if<Collective>(&of.work)) {
    return collective_time(of.network, collective->group, collective->operation, collective->bytes)
        .total_s();
  }
  const auto& step = std::get<Step>(of.work);
  return step_schedule(step.model, of.network, step.options).end_s();
}

}  // namespace gradsync::predict::second_opinion
