#include "harness/base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace gradsync {
namespace {

constexpr std::size_t kShortList = 8;
constexpr std::size_t kMostNames = 3;

std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> steps(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& least = steps[i][j];
      if (i == 0 || j == 0) {
        least = i + j;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      least = std::min({steps[i - 1][j] + 1, steps[i][j - 1] + 1, steps[i - 1][j - 1] + !same});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) least = std::min(least, steps[i - 2][j - 2] + 1);
    }
  }
  return steps[a.size()][b.size()];
}

bool is_near(const std::string& got, const std::string& name, std::size_t apart) {
  if (got.size() > 1 && (name.starts_with(got) || got.starts_with(name))) return true;
  return 3 * apart <= std::max(got.size(), name.size());
}

}  // namespace

std::vector<std::string> nearest_names(const std::string& got,
                                       const std::vector<std::string>& names) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& name : names) {
    const std::size_t apart = distance(got, name);
    if (is_near(got, name, apart)) near.emplace_back(apart, name);
  }
  std::ranges::sort(near);
  if (near.size() > kMostNames) near.resize(kMostNames);
  std::vector<std::string> found;
  for (auto& [apart, name] : near) found.push_back(std::move(name));
  return found;
}

std::string did_you_mean(const std::string& got, const std::vector<std::string>& names) {
  const std::vector<std::string> near = nearest_names(got, names);
  return near.empty() ? "" : fmt::format("did you mean {}?", fmt::join(near, " or "));
}

std::string one_of_names(const std::string& got, const std::vector<std::string>& names) {
  const std::string meant = did_you_mean(got, names);
  const bool all = names.size() <= kShortList || meant.empty();
  const std::string list = all ? fmt::format("one of {}", fmt::join(names, ", "))
                               : fmt::format("one of {} names", names.size());
  return meant.empty() ? list : fmt::format("{} ({})", list, meant);
}

}  // namespace gradsync
