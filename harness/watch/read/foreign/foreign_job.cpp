#include "harness/watch/read/foreign/foreign_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/whole_file.h"
#include "harness/watch/read/foreign/kineto.h"
#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

namespace {

RankEvents read_file(const std::string& path) {
  const std::string bytes = whole_file(path);
  if (is_trace(bytes)) return events_of(parse_trace(bytes, path));
  throw ConfigError(fmt::format("{}: {}, expected a trace that torch.profiler wrote", path,
                                bytes.empty() ? "is empty" : "got another kind of file"));
}

// Of several files each must say of which rank it is, and all must be of one job.
void check_together(const std::vector<std::string>& paths, const std::vector<RankEvents>& ranks) {
  std::map<int, std::string> by_rank;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const RankEvents& rank = ranks[i];
    if (rank.rank < 0) {
      throw ConfigError(paths[i], "rank", "nothing",
                        "the rank that wrote it, where several files are given");
    }
    const auto [known, is_new] = by_rank.emplace(rank.rank, paths[i]);
    if (!is_new) {
      throw ConfigError(
          fmt::format("{} and {}: got two files of rank {}, expected one of each rank",
                      known->second, paths[i], rank.rank));
    }
    if (rank.world_size != ranks[0].world_size) {
      throw ConfigError(paths[i], "world_size", std::to_string(rank.world_size),
                        fmt::format("{}, as {} has", ranks[0].world_size, paths[0]));
    }
  }
}

}  // namespace

std::vector<RankEvents> read_foreign_job(const std::vector<std::string>& paths) {
  std::vector<RankEvents> ranks;
  for (const std::string& path : paths) ranks.push_back(read_file(path));
  if (ranks.size() > 1) {
    check_together(paths, ranks);
    // Nothing says which of them share a host, and so a clock.
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].host = static_cast<int>(i);
      ranks[i].clock_error_ns.reset();
    }
  }
  std::ranges::sort(ranks, {}, &RankEvents::rank);
  return ranks;
}

}  // namespace gradsync::watch
