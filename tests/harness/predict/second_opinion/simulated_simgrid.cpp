#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <simgrid/s4u.hpp>

#include "tests/harness/predict/second_opinion/simulated.h"

namespace gradsync::predict::second_opinion {
namespace {

namespace sg = simgrid::s4u;

constexpr double kSpeed = 1e9;        // of a host; none computes, all sleep
constexpr std::size_t kChunks = 256;  // of half of a message, on its way through a tree

// --- The machines --------------------------------------------------------------------------------

struct Duplex {
  sg::Link* up = nullptr;
  sg::Link* down = nullptr;
};

// A message is late by the latency of what it leaves by.
Duplex duplex(sg::NetZone& zone, const std::string& name, const Link& link) {
  Duplex both{zone.create_link(name + "/up", link.bytes_per_s),
              zone.create_link(name + "/down", link.bytes_per_s)};
  both.up->set_latency(link.latency_s)->seal();
  both.down->set_latency(0)->seal();
  return both;
}

// The hosts of a case's ranks, in their order.
std::vector<sg::Host*> machines(sg::NetZone& root, const std::string& name,
                                const Network& network) {
  sg::NetZone& zone = *sg::create_full_zone(name)->set_parent(&root);
  std::vector<sg::Host*> hosts;
  std::vector<Duplex> own;
  std::vector<Duplex> of_node;
  for (int node = 0; node < network.nodes; ++node) {
    of_node.push_back(duplex(zone, fmt::format("{}/node {}", name, node), network.inter.value()));
  }
  for (int rank = 0; rank < network.world_size(); ++rank) {
    const std::string its = fmt::format("{}/{}", name, rank);
    hosts.push_back(zone.create_host(its, kSpeed)->seal());
    own.push_back(duplex(zone, its, network.intra.value()));
  }
  const auto node_of = [&](std::size_t rank) {
    return rank / static_cast<std::size_t>(network.ranks_per_node);
  };
  for (std::size_t a = 0; a < hosts.size(); ++a) {
    for (std::size_t b = 0; b < hosts.size(); ++b) {
      if (a == b) continue;
      std::vector<sg::LinkInRoute> route;
      const bool is_alone = network.ranks_per_node == 1 && network.nodes > 1;
      if (!is_alone) route.emplace_back(own[a].up);
      if (node_of(a) != node_of(b)) {
        route.emplace_back(of_node[node_of(a)].up);
        route.emplace_back(of_node[node_of(b)].down);
      }
      if (!is_alone) route.emplace_back(own[b].down);
      zone.add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr, nullptr, route,
                     false);
    }
  }
  zone.seal();
  return hosts;
}

// --- Messages ------------------------------------------------------------------------------------

sg::CommPtr send(const std::string& mailbox, double bytes) {
  static int nothing = 0;
  return sg::Mailbox::by_name(mailbox)->put_async(&nothing,
                                                  static_cast<std::uint64_t>(std::llround(bytes)));
}

void receive(const std::string& mailbox) {
  sg::Mailbox::by_name(mailbox)->get<int>();
}

// Who takes part, in the order of the ring, and at which place.
struct Ring {
  std::vector<int> ranks;
  std::size_t place = 0;
};

Ring ring_of(const Network& network, Group group, int rank) {
  const int per_node = network.ranks_per_node;
  Ring ring;
  for (int other = 0; other < network.world_size(); ++other) {
    if (group == Group::WithinNode && other / per_node != rank / per_node) continue;
    if (group == Group::AcrossNodes && other % per_node != rank % per_node) continue;
    if (other == rank) ring.place = ring.ranks.size();
    ring.ranks.push_back(other);
  }
  return ring;
}

void pass_around(const std::string& name, const Ring& ring, std::size_t passes, double bytes) {
  const std::size_t n = ring.ranks.size();
  const int next = ring.ranks[(ring.place + 1) % n];
  const std::string own = fmt::format("{} to {}", name, ring.ranks[ring.place]);
  for (std::size_t step = 0; step < passes * (n - 1); ++step) {
    const auto sent = send(fmt::format("{} to {}", name, next), bytes / static_cast<double>(n));
    receive(own);
    sent->wait();
  }
}

// One of the two trees, with half of the bytes: sums go up, chunk by chunk, and results down. The
// other tree has the ranks in the opposite order, so that an inner rank of one is a leaf in the
// other.
class Tree {
 public:
  Tree(std::string name, int ranks, int place, double bytes)
      : name_(std::move(name)), place_(place), chunk_(bytes / kChunks) {
    for (const int child : {2 * place + 1, 2 * place + 2}) {
      if (child < ranks) children_.push_back(child);
    }
  }

  void go_up() {
    std::vector<sg::CommPtr> sent;
    for (std::size_t c = 0; c < kChunks; ++c) {
      for (const int child : children_) receive(fmt::format("{} up from {}", name_, child));
      if (place_ > 0) sent.push_back(send(fmt::format("{} up from {}", name_, place_), chunk_));
      if (place_ == 0) summed_->release();
    }
    for (const auto& each : sent) each->wait();
  }

  void go_down() {
    std::vector<sg::CommPtr> sent;
    for (std::size_t c = 0; c < kChunks; ++c) {
      if (place_ > 0) receive(fmt::format("{} down to {}", name_, place_));
      if (place_ == 0) summed_->acquire();
      for (const int child : children_) {
        sent.push_back(send(fmt::format("{} down to {}", name_, child), chunk_));
      }
    }
    for (const auto& each : sent) each->wait();
  }

 private:
  std::string name_;
  int place_;
  double chunk_;
  std::vector<int> children_;
  sg::SemaphorePtr summed_ = sg::Semaphore::create(0);  // chunks, at the root
};

void in_two_trees(const std::string& name, int ranks, int rank, double bytes) {
  std::deque<Tree> trees;
  trees.emplace_back(name + " tree", ranks, rank, bytes / 2);
  trees.emplace_back(name + " other tree", ranks, ranks - 1 - rank, bytes / 2);
  std::vector<sg::ActorPtr> actors;
  for (Tree& tree : trees) {
    sg::Host* here = sg::this_actor::get_host();
    actors.push_back(sg::Actor::create("up", here, [&tree] { tree.go_up(); }));
    actors.push_back(sg::Actor::create("down", here, [&tree] { tree.go_down(); }));
  }
  for (const auto& actor : actors) actor->join();
}

// One rank's part of a collective; `name` is that of the collective, on all ranks.
void take_part(const std::string& name, const Network& network, int rank, const Collective& in) {
  const bool is_of_all = in.group == Group::World && in.operation == Operation::AllReduce;
  if (is_of_all && network.algorithm == Algorithm::Tree) {
    in_two_trees(name, network.world_size(), rank, in.bytes);
    return;
  }
  if (is_of_all && network.algorithm == Algorithm::TwoLevel) {
    const double part = in.bytes / network.ranks_per_node;
    take_part(name + " scatter", network, rank,
              {Group::WithinNode, Operation::ReduceScatter, in.bytes});
    take_part(name + " across", network, rank, {Group::AcrossNodes, Operation::AllReduce, part});
    take_part(name + " gather", network, rank, {Group::WithinNode, Operation::AllGather, in.bytes});
    return;
  }
  const std::size_t passes = in.operation == Operation::AllReduce ? 2 : 1;
  pass_around(name, ring_of(network, in.group, rank), passes, in.bytes);
}

// --- Steps ---------------------------------------------------------------------------------------

// The collectives that a rank's library works on, in the order in which they were issued, a few at
// a time.
class Library {
 public:
  Library(std::string name, const Network& network, int rank, int at_a_time)
      : name_(std::move(name)), network_(network), rank_(rank) {
    for (int i = 0; i < at_a_time; ++i) {
      workers_.push_back(
          sg::Actor::create("library", sg::this_actor::get_host(), [this] { work(); }));
    }
  }
  // What they wait for goes with it.
  ~Library() {
    for (const auto& worker : workers_) worker->kill();
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Returns what is released when it has ended.
  sg::SemaphorePtr issue(const Collective& collective) {
    queue_.push_back(
        {fmt::format("{} collective {}", name_, issued_++), collective, sg::Semaphore::create(0)});
    const auto ended = queue_.back().ended;
    waiting_->release();
    return ended;
  }

 private:
  struct Issued {
    std::string name;
    Collective collective;
    sg::SemaphorePtr ended;
  };

  void work() {
    while (true) {
      waiting_->acquire();
      const Issued next = queue_.front();
      queue_.pop_front();
      take_part(next.name, network_, rank_, next.collective);
      next.ended->release();
    }
  }

  std::string name_;
  const Network& network_;
  int rank_;
  int issued_ = 0;
  std::vector<sg::ActorPtr> workers_;
  std::deque<Issued> queue_;
  sg::SemaphorePtr waiting_ = sg::Semaphore::create(0);
};

double bytes_of(const Layer& layer, std::int64_t each) {
  return static_cast<double>(
      each * std::accumulate(layer.elements.begin(), layer.elements.end(), std::int64_t{0}));
}

void take_replicated_step(const Step& step, Library& library) {
  const auto buckets = reducer_buckets(step.model, step.options.buckets);
  for (const bool sync : step.options.syncs) {
    sg::this_actor::sleep_for(step.model.forward_s());
    std::vector<sg::SemaphorePtr> ends;
    for (std::size_t layer = step.model.layers.size(); layer-- > 0;) {
      sg::this_actor::sleep_for(step.model.layers[layer].backward_s);
      for (const Bucket& bucket : buckets) {
        if (!sync || bucket.layer != layer) continue;
        const auto bytes = static_cast<double>(bucket.elements * step.options.gradient_bytes);
        ends.push_back(library.issue({Group::World, Operation::AllReduce, bytes}));
      }
    }
    for (const auto& end : ends) end->acquire();
  }
  sg::this_actor::sleep_for(step.model.optimizer_s);
}

// Fully sharded: units are there while they are used.
class Units {
 public:
  Units(const Step& step, Library& library) : step_(step), library_(library) {}

  void prefetch(std::size_t unit) {
    if (unit >= step_.model.layers.size() || coming_.contains(unit)) return;
    const double bytes = bytes_of(step_.model.layers[unit], step_.options.parameter_bytes);
    if (bytes == 0) return;
    coming_[unit] = library_.issue({Group::World, Operation::AllGather, bytes});
  }
  void need(std::size_t unit) {
    prefetch(unit);
    if (coming_.contains(unit)) coming_.at(unit)->acquire();
  }
  void free(std::size_t unit) { coming_.erase(unit); }

  void reduce(std::size_t unit) {
    wait_for_reduced();
    const double bytes = bytes_of(step_.model.layers[unit], step_.options.gradient_bytes);
    if (bytes > 0) reducing_ = library_.issue({Group::World, Operation::ReduceScatter, bytes});
  }
  void wait_for_reduced() {
    if (reducing_) reducing_->acquire();
    reducing_ = nullptr;
  }

 private:
  const Step& step_;
  Library& library_;
  std::map<std::size_t, sg::SemaphorePtr> coming_;
  sg::SemaphorePtr reducing_;
};

void take_sharded_step(const Step& step, Library& library) {
  Units units(step, library);
  for (const bool sync : step.options.syncs) {
    for (std::size_t unit = 0; unit < step.model.layers.size(); ++unit) {
      units.need(unit);
      units.prefetch(unit + 1);
      sg::this_actor::sleep_for(step.model.layers[unit].forward_s);
      units.free(unit);
    }
    for (std::size_t unit = step.model.layers.size(); unit-- > 0;) {
      units.need(unit);
      units.prefetch(unit - 1);  // none before the first
      sg::this_actor::sleep_for(step.model.layers[unit].backward_s);
      if (sync) units.reduce(unit);
      units.free(unit);
    }
    units.wait_for_reduced();
  }
  sg::this_actor::sleep_for(step.model.optimizer_s);
}

void take_step(const std::string& name, const Network& network, int rank, const Step& step) {
  Library library(name, network, rank, step.at_a_time);
  if (step.options.wrapper == "fsdp") {
    take_sharded_step(step, library);
  } else {
    take_replicated_step(step, library);
  }
}

void play(const std::string& name, const Case& of, int rank) {
  if (const auto* collective = std::get_if<Collective>(&of.work)) {
    take_part(name, of.network, rank, *collective);
  } else {
    take_step(name, of.network, rank, std::get<Step>(of.work));
  }
}

}  // namespace

bool has_simgrid() {
  return true;
}

// All cases at once, each on machines of its own.
std::vector<double> simulated_s(const std::vector<Case>& cases) {
  int arguments = 1;
  std::string program = "second_opinion";
  char* argument = program.data();
  sg::Engine engine(&arguments, &argument);
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/crosstraffic:0");
  sg::Engine::set_config("surf/precision:1e-12");
  sg::NetZone& root = *sg::create_full_zone("all");
  std::vector<double> seconds(cases.size(), 0);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string name = fmt::format("case {}", i);
    const auto hosts = machines(root, name, cases[i].network);
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      sg::Actor::create(name, hosts[rank], [&cases, &seconds, name, i, rank] {
        play(name, cases[i], static_cast<int>(rank));
        seconds[i] = std::max(seconds[i], sg::Engine::get_clock());
      });
    }
  }
  root.seal();
  engine.run();
  return seconds;
}

}  // namespace gradsync::predict::second_opinion
