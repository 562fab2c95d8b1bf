// The file of held counts: its fields, and what must hold of them.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/json_fields.h"
#include "harness/base/readable_json.h"
#include "harness/gate/held_counts.h"
#include "harness/paper/words.h"

namespace gradsync::gate {

constexpr auto fields_of(const SizedCollectives*) {
  return std::tuple{field("op", &SizedCollectives::op), field("bytes", &SizedCollectives::bytes),
                    field("times", &SizedCollectives::times)};
}

constexpr auto fields_of(const MicroBatchCounts*) {
  return std::tuple{field("times", &MicroBatchCounts::times),
                    field("collectives", &MicroBatchCounts::collectives)};
}

constexpr auto fields_of(const OpTotal*) {
  return std::tuple{field("count", &OpTotal::count), field("bytes", &OpTotal::bytes)};
}

constexpr auto fields_of(const RankCounts*) {
  return std::tuple{field("ranks", &RankCounts::ranks),
                    field("syncs_per_step", &RankCounts::syncs_per_step),
                    field("per_step", &RankCounts::per_step),
                    field("peak_allocated_bytes", &RankCounts::peak_allocated_bytes),
                    field("micro_batches", &RankCounts::micro_batches),
                    field("outside", &RankCounts::outside)};
}

constexpr auto fields_of(const OperatorWork*) {
  return std::tuple{field("times", &OperatorWork::times), field("bytes", &OperatorWork::bytes)};
}

constexpr auto fields_of(const LineWork*) {
  return std::tuple{field("file", &LineWork::file), field("text", &LineWork::text),
                    field("times", &LineWork::times).at_least(0),
                    field("bytes", &LineWork::bytes).at_least(0)};
}

constexpr auto fields_of(const RankWork*) {
  return std::tuple{field("ranks", &RankWork::ranks).filled().at_least(0),
                    field("operators", &RankWork::operators).filled(),
                    field("flops", &RankWork::flops), field("lines", &RankWork::lines)};
}

constexpr auto fields_of(const HeldWork*) {
  return std::tuple{field("torch", &HeldWork::torch).filled(),
                    field("ranks", &HeldWork::ranks).filled()};
}

constexpr auto fields_of(const HeldCounts*) {
  return std::tuple{constant("schema", kCountsSchema), field("world_size", &HeldCounts::world_size),
                    field("ranks", &HeldCounts::ranks),
                    field(paper::kGpusField, &HeldCounts::gpus_of_paper).spared(),
                    field("work", &HeldCounts::work).spared()};
}

namespace {

// No watched step has more. A file with "times": 1e12 fails at once instead of taking for ever.
constexpr std::int64_t kMostOfAStep = 1'000'000;
constexpr std::int64_t kLargestCollective = 1'000'000'000'000;  // bytes; a step's sum has 63 bits

class Checker {
 public:
  explicit Checker(std::string file) : file_(std::move(file)) {}

  void check(const HeldCounts& counts) {
    require(counts.world_size >= 1, "world_size", counts.world_size, "1 or more");
    require(!counts.ranks.empty(), "ranks", "nothing", "one group of ranks or more");
    for (std::size_t i = 0; i < counts.ranks.size(); ++i) {
      check(counts.ranks[i], fmt::format("ranks[{}].", i));
    }
  }

 private:
  template <typename Got>
  void require(bool holds, const std::string& field, const Got& got, const std::string& expected) {
    if (!holds) throw ConfigError(file_, field, fmt::format("{}", got), expected);
  }

  void check(const RankCounts& group, const std::string& place) {
    require(!group.ranks.empty(), place + "ranks", "nothing", "one rank or more");
    for (const int rank : group.ranks) {
      require(rank >= 0 && ranks_.insert(rank).second, place + "ranks", rank,
              "ranks from 0, each once in the file");
    }
    std::int64_t micro_batches = 0;
    std::int64_t collectives = 0;
    for (std::size_t i = 0; i < group.micro_batches.size(); ++i) {
      const MicroBatchCounts& alike = group.micro_batches[i];
      const std::string at = fmt::format("{}micro_batches[{}].", place, i);
      micro_batches += checked_times(alike.times, at);
      collectives += alike.times * checked_sum(alike.collectives, at + "collectives");
      require(micro_batches + collectives <= kMostOfAStep, at + "times", alike.times,
              "a step of a job");
    }
    checked_sum(group.outside, place + "outside");
    require(group.syncs_per_step >= 0 && group.syncs_per_step <= micro_batches,
            place + "syncs_per_step", group.syncs_per_step,
            fmt::format("0 to {}, its micro-batches", micro_batches));
    const auto sums = totals_of(group);
    require(group.per_step == sums, place + "per_step", totals_text(group.per_step),
            "the sum of its collectives, " + totals_text(sums));
  }

  std::int64_t checked_times(std::int64_t times, const std::string& place) {
    require(times >= 1 && times <= kMostOfAStep, place + "times", times, "1 or more");
    return times;
  }

  std::int64_t checked_sum(const std::vector<SizedCollectives>& all, const std::string& place) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string at = fmt::format("{}[{}].", place, i);
      sum += checked_times(all[i].times, at);
      const std::int64_t bytes = all[i].bytes.value_or(0);
      require(bytes >= 0 && bytes <= kLargestCollective, at + "bytes", bytes,
              fmt::format("0 to {}", kLargestCollective));
      require(sum <= kMostOfAStep, at + "times", all[i].times, "a step of a job");
    }
    return sum;
  }

  std::string file_;
  std::set<int> ranks_;
};

}  // namespace

HeldCounts read_held_counts(const std::string& path) {
  HeldCounts counts = read_only_fields<HeldCounts>(read_json_file(path), path);
  Checker(path).check(counts);
  return counts;
}

std::string held_counts_text(const HeldCounts& counts) {
  return readable_json(write_fields(counts));
}

}  // namespace gradsync::gate
