#include "harness/report/collectives.h"

#include <algorithm>
#include <array>

namespace gradsync::report {

using nlohmann::json;

namespace {

constexpr std::array kCountedOps = {
    "all_reduce", "reduce_scatter",        "all_gather",           "send",
    "recv",       "batch_norm_all_gather", "batch_norm_all_reduce"};

}  // namespace

std::vector<std::string> counted_ops(const std::vector<json>& cells) {
  std::vector<std::string> ops;
  for (const char* op : kCountedOps) {
    const bool used = std::any_of(cells.begin(), cells.end(), [op](const json& cell) {
      const json& counts = cell["collectives_per_step"];
      return counts.is_object() && counts.contains(op) &&
             counts[op]["count"].get<std::int64_t>() > 0;
    });
    if (used) ops.emplace_back(op);
  }
  return ops;
}

std::string count_text(const json& collectives, const std::string& op) {
  if (!collectives.is_object()) return "-";
  return collectives.contains(op) ? collectives[op]["count"].dump() : "0";
}

double moved_bytes(const json& collectives) {
  double bytes = 0;
  for (const auto& [op, total] : collectives.items()) bytes += total["bytes"].get<double>();
  return bytes;
}

}  // namespace gradsync::report
