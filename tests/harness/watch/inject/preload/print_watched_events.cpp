// Prints what a watched job left in a folder, as one JSON array with an object for each process.
// usage: print_watched_events FOLDER
#include <exception>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "harness/watch/read/read_events.h"

namespace gradsync::watch {
namespace {

nlohmann::json json_of(const Event& event) {
  static constexpr const char* kKinds[] = {
      "forward", "backward", "collective", "optimizer_step", "no_sync_enter", "no_sync_leave",
      "wrap",    "sync",     "zero_grad",  "gradient_use",   "comm_hook",     "call"};
  static_assert(std::size(kKinds) == static_cast<int>(EventKind::Call) + 1);
  return {{"kind", kKinds[static_cast<int>(event.kind)]},
          {"start_ns", event.start_ns},
          {"end_ns", event.end_ns},
          {"issued_ns", event.issued_ns},
          {"name", event.name},
          {"bytes", event.bytes},
          {"object", event.object},
          {"thread", event.thread},
          {"detail", event.detail}};
}

nlohmann::json json_of(const WatchedFolder& folder) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankEvents& rank : folder.ranks) {
    nlohmann::json events = nlohmann::json::array();
    for (const Event& event : rank.events) events.push_back(json_of(event));
    ranks.push_back({{"rank", rank.rank},
                     {"world_size", rank.world_size},
                     {"pid", rank.pid},
                     {"faults", rank.faults},
                     {"events", events}});
  }
  return ranks;
}

}  // namespace
}  // namespace gradsync::watch

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    std::cout << gradsync::watch::json_of(gradsync::watch::read_folder(argv[1])) << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
