// Names and numbers as people read them in our tables.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace gradsync::report {

// "no_sync improperly" for no_sync_improper, as in the guide; every other id is its own name.
std::string strategy_label(const std::string& strategy);

struct TopologyLabel {
  std::string shape;  // "2 nodes x 1 rank"; the topology's name where the shape is not known
  std::string links;  // "1 Gbit/s"; empty where no link is shaped
  int nodes = 0;      // 0: not known
  int ranks_per_node = 0;
  std::string text() const { return links.empty() ? shape : shape + ", " + links; }
};

// Describes the topology of one cell of result.json, from "topologies" of the context ("nodes",
// "ranks_per_node", "inter_node_bits_per_s" and "intra_node_bits_per_s" by name) or, without it,
// from where the ranks ran or from a name such as "t4_2x1". Rates are those of the file, not
// scaled.
TopologyLabel topology_label(const nlohmann::json& context, const nlohmann::json& result_cell);

// Whether a comparison ("ratio", "ci95") has an interval, all of it on one side of 1.
bool told_apart(const nlohmann::json& comparison);

// "the one launch that ran", "the 2 launches that ran": where a comparison has no interval.
std::string launches_that_ran(const nlohmann::json& comparison);

// "FULL_SHARD" or "SHARD_GRAD_OP", PyTorch's names for FSDP that frees a unit's parameters after
// forward or keeps them until backward; "DDP" where nothing is sharded. `cell`: its parameters.
std::string sharding_label(const nlohmann::json& cell);

// Whether this cell trains in one of the ways that lead to DDP (sync/by_hand.h, sync/pipeline.h),
// in which the question is who waits. `cell`: its parameters.
bool is_on_the_road(const nlohmann::json& cell);

// Where a cell ran out of memory, from its reason: {"backward", 2}. Nothing where the reason names
// no micro-batch.
struct OomPlace {
  std::string phase;
  int micro_batch = 0;  // from 1
};
std::optional<OomPlace> oom_place(const nlohmann::json& result_cell);

// "2.018" with `decimals`; "-" for null.
std::string seconds_text(const nlohmann::json& value, int decimals);

// "2.20x [2.11, 2.30]", "1.00x" without an interval, "-" for null.
std::string ratio_text(const nlohmann::json& comparison);

// Decimals that give the smallest of the cells' step times three digits; at least 3, at most 6.
int decimals_for(const std::vector<nlohmann::json>& result_cells);

// The text of `value` where it is a string, its JSON otherwise: 4, true, bert_mini.
std::string plain_text(const nlohmann::json& value);

// The text of a parameter of a cell, as a plan would have it.
std::string parameter_text(const nlohmann::json& cell, const std::string& name);

// "1 launch", "4 launches" and the like.
std::string counted(std::size_t count, const std::string& singular, const std::string& plural);

}  // namespace gradsync::report
