// The links between ranks, and what a host adds to each transfer.
#pragma once

#include <optional>

namespace gradsync::predict {

struct Link {
  double bytes_per_s = 0;  // of payload, in each direction at once
  double latency_s = 0;    // of one message
  double burst_bytes = 0;  // that pass at once after a pause
};

// What the library and the processors do beside the wire and the model's own computation.
struct HostCost {
  double collective_s = 0;     // of each collective, on the wire's lane
  double per_byte_s = 0;       // of each byte that a rank sends, likewise
  double copy_per_byte_s = 0;  // of each byte that DDP copies back once it is reduced, on the
                               // computation's lane; with gradients as bucket views there is none
  double micro_batch_s = 0;    // of each micro-batch, on the computation's lane: hooks, queues
  // Time of the computing processor for each byte that a rank sends, beside the computation.
  double processor_per_byte_s = 0;
  // On the computation's lane, for a model that computes: time for each byte that DDP copies into a
  // bucket, and for each byte that FSDP gathers or reduces, whose storages are made, filled and
  // freed each time.
  double fill_per_byte_s = 0;
  double shard_per_byte_s = 0;
};

enum class Algorithm {
  Ring,     // through all ranks, node by node
  Tree,     // two binary trees over the nodes, a chain inside of each
  TwoLevel  // reduce inside a node, all_reduce across nodes, spread inside a node
};

struct Network {
  int nodes = 1;
  int ranks_per_node = 1;
  std::optional<Link> intra;  // of each rank; unset: transfers inside a node cost nothing
  std::optional<Link> inter;  // of each node, shared by its ranks
  Algorithm algorithm = Algorithm::Ring;
  HostCost host;
  bool scatters_by_all_reduce = false;  // gloo's reduce_scatter moves what an all_reduce does
  double gather_pause = 0;  // of a rank's share, for which an all_gather does not use the wire

  int world_size() const { return nodes * ranks_per_node; }
};

}  // namespace gradsync::predict
