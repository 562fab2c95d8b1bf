#include "harness/results/run_context.h"

#include "harness/base/fields.h"

namespace gradsync::results {

using nlohmann::json;

constexpr auto fields_of(const TopologyShape*) {
  return std::tuple{field("nodes", &TopologyShape::nodes).later(),
                    field("ranks_per_node", &TopologyShape::ranks_per_node).later(),
                    field("inter_node_bits_per_s", &TopologyShape::inter_node_bits_per_s).later(),
                    field("intra_node_bits_per_s", &TopologyShape::intra_node_bits_per_s).later()};
}

constexpr auto fields_of(const MeasuredLink*) {
  return std::tuple{
      field("measured_payload_bits_per_s", &MeasuredLink::measured_payload_bits_per_s).later(),
      field("free_burst_bytes", &MeasuredLink::free_burst_bytes).later()};
}

constexpr auto fields_of(const HostClockOffset*) {
  return std::tuple{field("node", &HostClockOffset::node),
                    field("offset_s", &HostClockOffset::offset_s).later(),
                    field("error_s", &HostClockOffset::error_s).later()};
}

constexpr auto fields_of(const ContextFields*) {
  return std::tuple{field("gradsync", &ContextFields::gradsync).later(),
                    field("commit", &ContextFields::commit).later(),
                    field("build_type", &ContextFields::build_type).later(),
                    field("torch", &ContextFields::torch).later(),
                    field("backend", &ContextFields::backend).later(),
                    field("host", &ContextFields::host).later(),
                    field("start_time", &ContextFields::start_time).later(),
                    field("seed", &ContextFields::seed).later(),
                    field("world_size", &ContextFields::world_size).later(),
                    field("cpus_usable", &ContextFields::cpus_usable).later(),
                    field("timing_valid", &ContextFields::timing_valid).later(),
                    field("timing_reason", &ContextFields::timing_reason).later(),
                    field("peak_memory_reason", &ContextFields::peak_memory_reason).later(),
                    field("warnings", &ContextFields::warnings).later(),
                    field("topologies", &ContextFields::topologies).later(),
                    field("links", &ContextFields::links).later(),
                    field("launcher", &ContextFields::launcher).later(),
                    field("resumed", &ContextFields::resumed).later(),
                    field("clocks", &ContextFields::clocks).later()};
}

Context::Context(json as_written) {
  if (as_written.is_object()) {
    static_cast<ContextFields&>(*this) = read_fields<ContextFields>(as_written, "a run's context");
  }
  written = std::move(as_written);
}

void to_json(json& out, const Context& context) {
  out = context.written;
}

}  // namespace gradsync::results
