#include "harness/watch/judge/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace gradsync::watch {
namespace {

std::set<std::int64_t> roots_of(const RankEvents& process) {
  std::set<std::int64_t> roots;
  for (const Event& event : process.events) {
    if (event.kind == EventKind::Forward) roots.insert(event.object);
  }
  return roots;
}

Flag& flag_for(const Event& event, bool is_on_root, std::vector<Flag>& flags) {
  const std::string name = event.name.empty() ? kGradientFlag : event.name;
  const auto same = std::ranges::find_if(flags, [&](const Flag& flag) {
    return flag.name == name && flag.is_on_root == is_on_root && flag.file == event.file &&
           flag.line == event.line;
  });
  if (same != flags.end()) return *same;
  flags.push_back({name, is_on_root, event.file, event.line, 0, 0});
  return flags.back();
}

}  // namespace

std::vector<Flag> flags_of(const RankEvents& process) {
  const std::set<std::int64_t> roots = roots_of(process);
  std::vector<Flag> flags;
  for (const Event& event : process.events) {
    if (event.kind != EventKind::Sync) continue;
    Flag& flag = flag_for(event, roots.contains(event.object), flags);
    ++(event.detail == "true" ? flag.on : flag.off);
  }
  return flags;
}

std::string flag_text(const Flag& flag) {
  std::string text =
      fmt::format("{} on {}:", flag.name, flag.is_on_root ? "the model" : "modules of it");
  if (flag.on > 0) text += fmt::format(" {} x True{}", flag.on, flag.off > 0 ? "," : "");
  if (flag.off > 0) text += fmt::format(" {} x False", flag.off);
  const std::string place = place_text(flag.file, flag.line);
  return place.empty() ? text : text + ", " + place;
}

}  // namespace gradsync::watch
