#include "harness/results/run_context.h"

#include "harness/base/fields.h"

namespace gradsync::results {

using nlohmann::json;

constexpr auto fields_of(const TopologyShape*) {
  return std::tuple{GRADSYNC_LATER_FIELDS(TopologyShape, nodes, ranks_per_node,
                                          inter_node_bits_per_s, intra_node_bits_per_s)};
}

constexpr auto fields_of(const MeasuredLink*) {
  return std::tuple{
      GRADSYNC_LATER_FIELDS(MeasuredLink, measured_payload_bits_per_s, free_burst_bytes)};
}

constexpr auto fields_of(const HostClockOffset*) {
  return std::tuple{field("node", &HostClockOffset::node),
                    GRADSYNC_LATER_FIELDS(HostClockOffset, offset_s, error_s)};
}

constexpr auto fields_of(const ContextFields*) {
  return std::tuple{GRADSYNC_LATER_FIELDS(
      ContextFields, gradsync, commit, build_type, torch, backend, device, host, start_time, seed,
      world_size, cpus_usable, timing_valid, timing_reason, peak_memory_reason, warnings,
      topologies, links, launcher, resumed, clocks)};
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
