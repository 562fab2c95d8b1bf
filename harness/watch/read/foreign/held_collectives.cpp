#include "harness/watch/read/foreign/held_collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "harness/base/units.h"
#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {
namespace {

// More are not listed: who has many lines reads the JSON.
constexpr std::size_t kMostListed = 8;

}  // namespace

std::string held_collectives(const RankEvents& rank) {
  std::map<std::pair<std::string, std::string>, OpSum> by_place;
  for (const Event& event : rank.events) {
    if (event.kind != EventKind::Collective) continue;
    OpSum& sum = by_place[{event.name, place_text(event.file, event.line)}];
    ++sum.count;
    if (event.bytes < 0) sum.bytes.reset();
    if (sum.bytes) *sum.bytes += event.bytes;
  }
  std::vector<std::pair<std::int64_t, std::string>> texts;
  for (const auto& [of, sum] : by_place) {
    const std::string bytes =
        sum.bytes ? format_bytes(static_cast<double>(*sum.bytes)) : "of unknown size";
    texts.emplace_back(-sum.count, fmt::format("{} {} ({}){}{}", sum.count, of.first, bytes,
                                               of.second.empty() ? "" : ", ", of.second));
  }
  std::ranges::sort(texts);
  std::vector<std::string> listed;
  for (const auto& [_, text] : texts) {
    if (listed.size() < kMostListed) listed.push_back(text);
  }
  if (texts.size() > listed.size()) {
    listed.push_back(fmt::format("and {} more", texts.size() - listed.size()));
  }
  const std::string whose = rank.rank < 0 ? "it" : fmt::format("rank {}", rank.rank);
  return listed.empty() ? whose + " has no collectives"
                        : fmt::format("{} has {}", whose, fmt::join(listed, "; "));
}

}  // namespace gradsync::watch
