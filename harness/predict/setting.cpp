#include "harness/predict/setting.h"

#include <fmt/format.h>

#include "harness/launch/link_shape.h"
#include "harness/memory/memory_prediction.h"
#include "harness/plan/known_options.h"
#include "harness/plan/strategies.h"

namespace gradsync::predict {
namespace {

constexpr double kBitsPerByte = 8;
constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kHalfBytes = 2;

std::optional<Link> link_of(const std::optional<double>& bits_per_s,
                            const LinkConstants& constants) {
  if (!bits_per_s) return std::nullopt;
  Link link{*bits_per_s * constants.payload_share / kBitsPerByte, constants.latency_s, 0};
  if (constants.is_shaped) {
    const launch::LinkShape shape = launch::shape_link(*bits_per_s);
    link.bytes_per_s *= launch::share_beside_acknowledgements(shape);
    link.burst_bytes = shape.burst_bytes;
  }
  return link;
}

}  // namespace

std::string why_not_predicted(const plan::Cell& cell, const launch::Topology& topology) {
  if (std::string why = plan::why_unknown(cell, plan::Prediction::Step); !why.empty()) return why;
  const bool has_rate = topology.nodes > 1
                            ? topology.inter_node_bits_per_s.has_value()
                            : topology.ranks_per_node == 1 || topology.intra_node_bits_per_s;
  if (!has_rate && cell.wrapper != "local") {
    return fmt::format("topology {} has no rate of the link {}: give it one", topology.name,
                       topology.nodes > 1 ? "between nodes" : "inside a node");
  }
  if (cell.hybrid_shard && topology.ranks_per_node > 1 && !topology.intra_node_bits_per_s) {
    return fmt::format(
        "topology {} has no rate of the link inside a node, over which a hybrid shards",
        topology.name);
  }
  return "";
}

Network network_of(const launch::Topology& topology, const LinkConstants& constants) {
  Network network;
  network.nodes = topology.nodes;
  network.ranks_per_node = topology.ranks_per_node;
  network.intra = link_of(topology.intra_node_bits_per_s, constants);
  network.inter = link_of(topology.inter_node_bits_per_s, constants);
  network.algorithm = constants.algorithm;
  network.host = constants.host;
  network.scatters_by_all_reduce = constants.scatters_by_all_reduce;
  network.gather_pause = constants.gathers_half_late ? kGlooPause : 0;
  return network;
}

StepOptions options_of(const plan::Cell& cell) {
  StepOptions options;
  options.wrapper = cell.wrapper;
  options.syncs = plan::declared_syncs(cell.wrapper, cell.strategy, cell.accumulation_steps);
  options.gradient_bytes = cell.wrapper == "fsdp"       ? memory::element_bytes(cell.reduce_dtype)
                           : cell.compression == "none" ? kFloatBytes
                                                        : kHalfBytes;
  options.buckets = memory::buckets_of(cell);
  options.copies_back = !cell.gradient_as_bucket_view;
  options.broadcasts_buffers = cell.broadcast_buffers;
  options.parameter_bytes = memory::element_bytes(cell.param_dtype);
  options.reshards_after_forward = cell.reshard_after_forward;
  options.reshards_after_backward = cell.reshard_after_backward;
  options.prefetches = cell.prefetch;
  options.is_hybrid = cell.hybrid_shard;
  return options;
}

}  // namespace gradsync::predict
