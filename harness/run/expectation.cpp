#include "harness/run/expectation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

namespace gradsync::run {
namespace {

// Sizes of one micro-batch's all_reduces, in order.
std::vector<std::int64_t> declared_reductions(const Declared& declared, bool synced) {
  if (!synced) return {};
  std::vector<std::int64_t> bytes = declared.bucket_bytes;
  if (declared.unused_map_bytes > 0) bytes.push_back(declared.unused_map_bytes);
  return bytes;
}

bool broadcasts_before(const std::vector<bool>& syncs, std::size_t micro_batch) {
  return micro_batch == 0 ? syncs.back() : syncs[micro_batch - 1];
}

}  // namespace

results::OpCounts expected_of_step(const Declared& declared, const std::vector<bool>& syncs) {
  results::OpCounts counts;
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    const auto bytes = declared_reductions(declared, syncs[i]);
    if (!bytes.empty()) {
      counts["all_reduce"].count += static_cast<std::int64_t>(bytes.size());
      counts["all_reduce"].bytes += std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
    }
    if (declared.buffer_broadcasts > 0 && broadcasts_before(syncs, i)) {
      counts["broadcast"].count += declared.buffer_broadcasts;
      counts["broadcast"].bytes += declared.buffer_bytes;
    }
  }
  return counts;
}

results::OpCounts counts_of_step(const std::vector<comm::CommEvent>& events, int step) {
  results::OpCounts counts;
  for (const comm::CommEvent& event : events) {
    if (event.step != step) continue;
    counts[event.op].count += 1;
    counts[event.op].bytes += event.bytes;
  }
  return counts;
}

std::string first_mismatch(const Declared& declared, const std::vector<bool>& syncs,
                           const std::vector<comm::CommEvent>& events, int step) {
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    std::vector<std::int64_t> reductions;
    results::OpCounts others;
    for (const comm::CommEvent& event : events) {
      if (event.step != step || event.micro_batch != static_cast<int>(i)) continue;
      if (std::string_view(event.op) == "all_reduce") {
        reductions.push_back(event.bytes);
      } else {
        others[event.op].count += 1;
        others[event.op].bytes += event.bytes;
      }
    }
    const std::string place = fmt::format("step {}, micro-batch {}", step + 1, i + 1);
    const auto wanted = declared_reductions(declared, syncs[i]);
    if (reductions.size() != wanted.size()) {
      return fmt::format("{}: {} all_reduces, declared {}", place, reductions.size(),
                         wanted.size());
    }
    for (std::size_t bucket = 0; bucket < wanted.size(); ++bucket) {
      if (reductions[bucket] == wanted[bucket]) continue;
      return fmt::format("{}: all_reduce of bucket {} has {} bytes, declared {}", place, bucket,
                         reductions[bucket], wanted[bucket]);
    }
    results::OpCounts wanted_others;
    if (declared.buffer_broadcasts > 0 && broadcasts_before(syncs, i)) {
      wanted_others["broadcast"] = {declared.buffer_broadcasts, declared.buffer_bytes};
    }
    if (others != wanted_others) {
      const auto count = others.contains("broadcast") ? others["broadcast"].count : 0;
      return fmt::format("{}: {} broadcasts (or others), declared {}", place, count,
                         declared.buffer_broadcasts);
    }
  }
  return "";
}

}  // namespace gradsync::run
