// Names and numbers as people read them in our tables.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/parameters.h"
#include "harness/results/result.h"

namespace gradsync::text {

// "no_sync improperly" for no_sync_improper, as in the guide; every other id is its own name.
std::string strategy_label(const std::string& strategy);

struct TopologyLabel {
  std::string shape;  // "2 nodes x 1 rank"; the topology's name where the shape is not known
  std::string links;  // "1 Gbit/s"; empty where no link is shaped
  int nodes = 0;      // 0: not known
  int ranks_per_node = 0;
  std::string text() const { return links.empty() ? shape : shape + ", " + links; }
};

// How many nodes, and ranks on each; 0: not known.
struct Shape {
  int nodes = 0;
  int ranks_per_node = 0;
};

// Describes a topology by its name, from "topologies" of the context or, without it, from where the
// ranks ran or from a name such as "t4_2x1". Rates are those of the file, not scaled.
TopologyLabel topology_label(const results::Context& context, const std::string& topology,
                             const Shape& ran_on);
TopologyLabel topology_label(const results::Context& context, const results::CellResult& cell);

// "the one launch that ran", "the 2 launches that ran": where a comparison has no interval.
std::string launches_that_ran(std::size_t launches);

// "FULL_SHARD" or "SHARD_GRAD_OP", PyTorch's names for FSDP that frees a unit's parameters after
// forward or keeps them until backward; "DDP" where nothing is sharded.
std::string sharding_label(const results::Parameters& cell);

// Returns whether this cell trains in one of the ways that lead to DDP (sync/by_hand.h,
// sync/pipeline.h), where the question is which rank waits.
bool is_on_the_road(const results::Parameters& cell);

// "2.018" with `decimals`.
std::string seconds_text(double seconds, int decimals);

// "443.6 MiB"
std::string bytes_text(std::int64_t bytes);

// "2.20x [2.11, 2.30]", "1.00x" without an interval.
std::string ratio_text(const results::Ratio& ratio);

// `text` of a value, "-" where there is none.
template <typename Maybe, typename Text>
std::string text_or_dash(const Maybe& value, const Text& text) {
  return value ? text(*value) : std::string("-");
}

// Decimals that give the smallest of the mean steps three digits; at least 3, at most 6.
int decimals_for(const std::vector<double>& means_s);

// The text of `value` where it is a string, its JSON otherwise: 4, true, bert_mini.
std::string plain_text(const nlohmann::json& value);

// The text of a parameter of a cell, as a plan would have it; "-" where it has none.
std::string parameter_text(const results::Parameters& cell, const std::string& name);

// "1 launch", "4 launches" and the like.
std::string counted(std::size_t count, const std::string& singular, const std::string& plural);

// Returns the names of the parameters that differ between the cells, sorted, without topology and
// strategy. One that only some of them have differs; one that belongs to a wrapper (plan::Axis)
// differs where cells of that wrapper do, since the others cannot have it.
std::vector<std::string> varying_names(const std::vector<const results::Parameters*>& cells);

}  // namespace gradsync::text
