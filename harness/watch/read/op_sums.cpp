#include "harness/watch/read/op_sums.h"

#include "harness/base/units.h"

namespace gradsync::watch {

void add(OpSums& sums, const std::string& op, const OpSum& more) {
  OpSum& sum = sums[op];
  sum.count += more.count;
  if (sum.bytes && more.bytes) {
    *sum.bytes += *more.bytes;
  } else {
    sum.bytes.reset();
  }
}

void add(OpSums& sums, const Event& collective) {
  add(sums, collective.name,
      {1, collective.bytes < 0 ? std::nullopt : std::optional<std::int64_t>(collective.bytes)});
}

void add(OpSums& sums, const OpSums& more) {
  for (const auto& [op, sum] : more) add(sums, op, sum);
}

OpSums times(int count, const OpSums& sums) {
  OpSums product;
  if (count == 0) return product;
  for (const auto& [op, sum] : sums) {
    product[op] = {count * sum.count,
                   sum.bytes ? std::optional<std::int64_t>(count * *sum.bytes) : std::nullopt};
  }
  return product;
}

OpSums without(const OpSums& sums, const OpSums& part) {
  OpSums left = sums;
  for (const auto& [op, taken] : part) {
    OpSum& sum = left[op];
    sum.count -= taken.count;
    if (sum.bytes && taken.bytes) {
      *sum.bytes -= *taken.bytes;
    } else {
      sum.bytes.reset();
    }
    if (sum.count <= 0) left.erase(op);
  }
  return left;
}

OpSum sum_of(const OpSums& sums, const std::string& op) {
  const auto found = sums.find(op);
  return found == sums.end() ? OpSum{} : found->second;
}

std::int64_t total_count(const OpSums& sums) {
  std::int64_t count = 0;
  for (const auto& [op, sum] : sums) count += sum.count;
  return count;
}

std::optional<std::int64_t> total_bytes(const OpSums& sums) {
  std::int64_t bytes = 0;
  for (const auto& [op, sum] : sums) {
    if (!sum.bytes) return std::nullopt;
    bytes += *sum.bytes;
  }
  return bytes;
}

std::string bytes_text(const std::optional<std::int64_t>& bytes) {
  return bytes ? format_bytes(static_cast<double>(*bytes)) : "-";
}

void add_cells(std::vector<std::string>& row, const OpSums& sums, const std::string& op) {
  const OpSum sum = sum_of(sums, op);
  row.push_back(std::to_string(sum.count));
  row.push_back(bytes_text(sum.bytes));
}

}  // namespace gradsync::watch
