// "collectives_per_step" of a cell, as tables show it: {"all_reduce": {"count", "bytes"}, ...}.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradsync::report {

// Returns the operations worth a column of their own that any of these cells (or sides of a
// comparison) used; the rest (a broadcast of buffers) counts as bytes only.
std::vector<std::string> counted_ops(const std::vector<nlohmann::json>& cells);

// "56"; "0" for an operation that was not used; "-" where `collectives` is null.
std::string count_text(const nlohmann::json& collectives, const std::string& op);

// Returns the bytes of all operations, per rank and step. `collectives` must not be null.
double moved_bytes(const nlohmann::json& collectives);

}  // namespace gradsync::report
