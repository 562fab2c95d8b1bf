#include "harness/run/expectation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "harness/base/errors.h"

namespace gradsync::run {
namespace {

sync::Collectives collectives_of(const std::vector<comm::CommEvent>& events, int step,
                                 int micro_batch) {
  sync::Collectives seen;
  for (const comm::CommEvent& event : events) {
    if (event.step == step && event.micro_batch == micro_batch) {
      seen[event.op].push_back(event.bytes);
    }
  }
  return seen;
}

void add_counts(results::OpCounts& counts, const sync::Collectives& micro_batch) {
  for (const auto& [op, sizes] : micro_batch) {
    counts[op].count += static_cast<std::int64_t>(sizes.size());
    counts[op].bytes += std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  }
}

// Both lists are of one operation of one micro-batch.
std::string difference(const std::string& op, const std::vector<std::int64_t>& seen,
                       const std::vector<std::int64_t>& declared) {
  if (seen.size() != declared.size()) {
    return fmt::format("{} {}s, declared {}", seen.size(), op, declared.size());
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] == declared[i]) continue;
    return fmt::format("{} {} has {} bytes, declared {}", op, i, seen[i], declared[i]);
  }
  return "";
}

}  // namespace

results::OpCounts expected_of_step(const std::vector<sync::Collectives>& declared) {
  results::OpCounts counts;
  for (const sync::Collectives& micro_batch : declared) add_counts(counts, micro_batch);
  return counts;
}

results::OpCounts counts_of_step(const std::vector<comm::CommEvent>& events, int step,
                                 const std::vector<sync::Collectives>& declared,
                                 const PassedOver& passed_over) {
  results::OpCounts counts;
  for (const comm::CommEvent& event : events) {
    if (event.step != step) continue;
    counts[event.op].count += 1;
    counts[event.op].bytes += event.bytes;
  }
  for (int i = passed_over.first; i < passed_over.end; ++i) {
    add_counts(counts, declared.at(static_cast<std::size_t>(i)));
  }
  return counts;
}

std::string missing_gradients(const std::vector<std::int64_t>& reductions,
                              const std::optional<std::int64_t>& gradient_bytes) {
  const std::int64_t planned =
      std::accumulate(reductions.begin(), reductions.end(), std::int64_t{0});
  if (!gradient_bytes || planned == *gradient_bytes) return "";
  return fmt::format("{} reductions of {} bytes in all, of gradients of {} bytes",
                     reductions.size(), planned, *gradient_bytes);
}

std::string first_mismatch(const std::vector<sync::Collectives>& declared,
                           const std::vector<comm::CommEvent>& events, int step,
                           const PassedOver& passed_over) {
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const sync::Collectives seen = collectives_of(events, step, static_cast<int>(i));
    if (passed_over.contains(static_cast<int>(i)) && seen.empty()) continue;
    std::set<std::string> ops;
    for (const auto& [op, _] : seen) ops.insert(op);
    for (const auto& [op, _] : declared[i]) ops.insert(op);
    const auto sizes = [](const sync::Collectives& of, const std::string& op) {
      const auto found = of.find(op);
      return found == of.end() ? std::vector<std::int64_t>{} : found->second;
    };
    for (const std::string& op : ops) {
      const std::string words = difference(op, sizes(seen, op), sizes(declared[i], op));
      if (!words.empty()) return fmt::format("step {}, micro-batch {}: {}", step + 1, i + 1, words);
    }
  }
  return "";
}

namespace {

// A device has a clock of its own, whose times are brought to the host's. Beyond these, of the
// block or in seconds, that went wrong.
constexpr double kClocksApart = 1e-3;
constexpr double kClocksApartS = 10e-3;

}  // namespace

std::string first_mistiming(const std::vector<measure::RecordedStep>& steps, std::size_t count,
                            double block_s) {
  if (steps.size() != count) return fmt::format("{} steps have times, of {}", steps.size(), count);
  double sum_s = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    sum_s += steps[i].total_s();
    if (i > 0 && steps[i].start_ns != steps[i - 1].end_ns) {
      return fmt::format("step {} begins {} ns after the end of the one before it", i + 1,
                         steps[i].start_ns - steps[i - 1].end_ns);
    }
  }
  if (sum_s > block_s + std::max(kClocksApart * block_s, kClocksApartS)) {
    return fmt::format("steps sum to {:.6f} s, the block took {:.6f} s", sum_s, block_s);
  }
  return "";
}

std::vector<int> window_micro_batches(int steps, int accumulation_steps, bool as_published,
                                      bool short_window_last) {
  std::vector<int> windows(static_cast<std::size_t>(steps), accumulation_steps);
  if (!as_published || windows.empty() || accumulation_steps < 2) return windows;
  if (short_window_last) {
    windows.back() = accumulation_steps - 1;
  } else {
    windows.front() = 1;
  }
  return windows;
}

std::string place_of_backward(int index, const std::vector<int>& warmup,
                              const std::vector<int>& windows) {
  for (const auto& [name, steps] : {std::pair{"warm-up step", &warmup}, {"step", &windows}}) {
    for (std::size_t i = 0; i < steps->size(); ++i) {
      if (index < (*steps)[i]) return fmt::format("{} {}, micro-batch {}", name, i + 1, index + 1);
      index -= (*steps)[i];
    }
  }
  GRADSYNC_CHECK(index, <, 0);
  return "";
}

}  // namespace gradsync::run
