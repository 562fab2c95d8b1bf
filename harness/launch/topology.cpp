#include "harness/launch/topology.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/base/nearest.h"
#include "harness/base/program_files.h"
#include "harness/base/units.h"

namespace gradsync::launch {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kSchema = "gradsync.topology/1";
// What fits the last two bytes of the private addresses 10.77.NODE.RANK of a cluster on one
// machine.
constexpr int kMostNodes = 256;
constexpr int kMostRanksPerNode = 254;

int read_count(JsonFields& fields, const std::string& name, int most) {
  const std::int64_t count = fields.positive_int(name);
  if (count > most) fields.fail(name, fmt::format("an integer from 1 to {}", most));
  return static_cast<int>(count);
}

// Returns the "rate" of the link object `name`; nothing where the link is null or absent.
std::optional<double> read_link(JsonFields& fields, const std::string& name, int scale) {
  const json& link = fields.raw(name, false);
  if (link.is_null()) return std::nullopt;
  if (!link.is_object()) fields.fail(name, "null or an object such as {\"rate\": \"1Gbps\"}");
  JsonFields link_fields(link, fields.file(), name + ".");
  const std::string rate = link_fields.string("rate");
  link_fields.finish();
  try {
    return parse_rate_bits_per_s(rate) / scale;
  } catch (const std::invalid_argument& expected) {
    link_fields.fail("rate", expected.what());
  }
}

Topology parse_topology(const fs::path& path, int scale) {
  const json source = read_json_file(path.string());
  JsonFields fields(source, path.string());
  if (fields.string("schema") != kSchema) fields.fail("schema", fmt::format("\"{}\"", kSchema));
  Topology topology;
  topology.name = path.stem().string();
  topology.about = fields.string("about", "");
  topology.nodes = read_count(fields, "nodes", kMostNodes);
  topology.ranks_per_node = read_count(fields, "ranks_per_node", kMostRanksPerNode);
  topology.inter_node_bits_per_s = read_link(fields, "inter_node", scale);
  topology.intra_node_bits_per_s = read_link(fields, "intra_node", scale);
  fields.finish();
  if (topology.nodes == 1 && topology.inter_node_bits_per_s) {
    fields.fail("inter_node", "null, since one node has no link to another");
  }
  return topology;
}

// Returns the topology that a bare "NxR" means; nothing where `name` is not of that form.
std::optional<Topology> parse_bare(const std::string& name) {
  Topology topology;
  topology.name = name;
  const char* const end = name.data() + name.size();
  const auto [cross, bad_nodes] = std::from_chars(name.data(), end, topology.nodes);
  if (bad_nodes != std::errc{} || cross == end || *cross != 'x') return std::nullopt;
  const auto [rest, bad_ranks] = std::from_chars(cross + 1, end, topology.ranks_per_node);
  if (bad_ranks != std::errc{} || rest != end) return std::nullopt;
  if (topology.nodes < 1 || topology.nodes > kMostNodes || topology.ranks_per_node < 1 ||
      topology.ranks_per_node > kMostRanksPerNode) {
    throw ConfigError(
        fmt::format("topology '{}': expected NODESxRANKS with 1 to {} nodes of 1 to {} ranks", name,
                    kMostNodes, kMostRanksPerNode));
  }
  topology.about = fmt::format("{} node(s) of {} rank(s), unshaped links", topology.nodes,
                               topology.ranks_per_node);
  return topology;
}

}  // namespace

Topology read_topology(const std::string& name, const std::string& directory, int scale) {
  GRADSYNC_CHECK(scale, >=, 1);
  const fs::path shipped = fs::path(directory) / (name + ".json");
  const bool bare_word = name.find('/') == std::string::npos;
  if (bare_word && fs::is_regular_file(shipped)) return parse_topology(shipped, scale);
  if (!bare_word || name.ends_with(".json")) return parse_topology(name, scale);
  if (const auto topology = parse_bare(name)) return *topology;
  throw ConfigError(
      fmt::format("topology '{}': no such topology; expected a file, NODESxRANKS as in 2x4, or {}",
                  name, one_of_names(name, list_topologies(directory))));
}

std::vector<std::string> list_topologies(const std::string& directory) {
  return list_json_files(directory);
}

}  // namespace gradsync::launch
