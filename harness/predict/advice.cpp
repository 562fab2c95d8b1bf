#include "harness/predict/advice.h"

#include <fmt/format.h>

#include <array>

namespace gradsync::predict {
namespace {

using Cells = std::vector<plan::Cell>;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// 0: DDP's own 25 MiB behind a first bucket of 1 MiB.
constexpr std::array<std::int64_t, 8> kBuckets{0,         kMiB,       5 * kMiB,   10 * kMiB,
                                               50 * kMiB, 100 * kMiB, 250 * kMiB, 1000 * kMiB};

// Returns each of `cells` with each of `values` in `field`.
template <typename Value, typename Values>
Cells with_each(const Cells& cells, Value plan::Cell::*field, const Values& values) {
  Cells product;
  for (const plan::Cell& cell : cells) {
    for (const auto& value : values) {
      product.push_back(cell);
      product.back().*field = value;
    }
  }
  return product;
}

constexpr std::array kEither{false, true};

// Returns the strategies to compare. A single micro-batch has no synchronization to leave out.
std::vector<std::string> strategies_for(int accumulation_steps) {
  if (accumulation_steps == 1) return {"baseline"};
  return {"baseline", "no_sync"};
}

Cells replicated(const plan::Cell& of) {
  Cells cells = with_each({of}, &plan::Cell::strategy, strategies_for(of.accumulation_steps));
  cells = with_each(cells, &plan::Cell::bucket_cap_bytes, kBuckets);
  cells = with_each(cells, &plan::Cell::compression, std::array{"none", "bf16"});
  return with_each(cells, &plan::Cell::gradient_as_bucket_view, kEither);
}

bool has_two_axes(const launch::Topology& topology) {
  return topology.nodes > 1 && topology.ranks_per_node > 1;
}

Cells sharded(plan::Cell of, const launch::Topology& topology) {
  of.wrapper = "fsdp";
  Cells cells = with_each({of}, &plan::Cell::strategy, strategies_for(of.accumulation_steps));
  cells = with_each(cells, &plan::Cell::reshard_after_forward, kEither);
  if (of.accumulation_steps > 1) {
    cells = with_each(cells, &plan::Cell::reshard_after_backward, kEither);
  }
  cells = with_each(cells, &plan::Cell::reduce_dtype, std::array{"float32", "bfloat16"});
  if (has_two_axes(topology)) cells = with_each(cells, &plan::Cell::hybrid_shard, kEither);
  // Parameters that stay until the gradient is reduced are freed where it is reduced every time.
  std::erase_if(cells, [](const plan::Cell& cell) {
    return !cell.reshard_after_backward && cell.strategy == "baseline";
  });
  return cells;
}

std::vector<std::string> ddp_changes(const plan::Cell& way) {
  std::vector<std::string> changes;
  if (way.bucket_cap_bytes > 0) {
    changes.push_back(
        fmt::format("DistributedDataParallel(bucket_cap_mb={})", way.bucket_cap_bytes / kMiB));
  }
  if (way.gradient_as_bucket_view) {
    changes.emplace_back("DistributedDataParallel(gradient_as_bucket_view=True)");
  }
  if (way.compression != "none") {
    changes.push_back(
        fmt::format("model.register_comm_hook(None, {}_compress_hook)", way.compression));
  }
  if (way.strategy == "no_sync") {
    changes.emplace_back(
        "model.no_sync() around forward and backward of every micro-batch but the last");
  }
  return changes;
}

std::vector<std::string> fsdp_changes(const plan::Cell& way, const launch::Topology& topology) {
  std::vector<std::string> changes{way.reshard_after_forward
                                       ? "fully_shard(module) of each layer and the model"
                                       : "fully_shard(module, reshard_after_forward=False) of each "
                                         "layer and the model"};
  if (way.hybrid_shard) {
    changes.push_back(fmt::format("mesh=init_device_mesh(device, ({}, {}))", topology.nodes,
                                  topology.ranks_per_node));
  }
  if (way.reduce_dtype != "float32") {
    changes.emplace_back("mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)");
  }
  if (way.strategy == "no_sync") {
    changes.emplace_back("model.set_requires_gradient_sync(is_last) before every micro-batch");
  }
  if (!way.reshard_after_backward) {
    changes.emplace_back("model.set_reshard_after_backward(is_last) before every micro-batch");
  }
  return changes;
}

}  // namespace

std::vector<plan::Cell> ways(const std::string& model, const launch::Topology& topology,
                             int accumulation_steps) {
  plan::Cell of;
  of.topology = topology.name;
  of.model = model;
  of.accumulation_steps = accumulation_steps;
  Cells all = replicated(of);
  const Cells more = sharded(of, topology);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<std::string> script_changes(const plan::Cell& way, const launch::Topology& topology) {
  return way.wrapper == "fsdp" ? fsdp_changes(way, topology) : ddp_changes(way);
}

std::vector<std::string> open_questions(const plan::Cell& way) {
  std::vector<std::string> questions;
  if (way.compression != "none") {
    questions.push_back(
        fmt::format("what casting to {} takes, and whether training bears it", way.compression));
  }
  if (way.reduce_dtype != "float32") {
    questions.emplace_back("whether training bears sums in bfloat16");
  }
  if (way.wrapper == "fsdp") {
    questions.emplace_back("what freeing and gathering take beside the wire");
  }
  return questions;
}

}  // namespace gradsync::predict
