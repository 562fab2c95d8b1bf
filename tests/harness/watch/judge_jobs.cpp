// Prints what gradsync watch would write of each job, a line each: of DIR/hook-*.jsonl, and of
// DIR/collectives-*.jsonl (jobs/training.py), which stand for what the native library sees.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/watch/hook_events.h"
#include "harness/watch/watched.h"

namespace {

using gradsync::watch::Event;
using gradsync::watch::EventKind;
using gradsync::watch::RankEvents;

RankEvents collectives_of(const std::filesystem::path& path) {
  RankEvents process;
  process.pid = std::stoll(path.stem().string().substr(std::string("collectives-").size()));
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    Event event;
    event.kind = EventKind::Collective;
    event.name = json.at("name");
    event.bytes = json.at("bytes");
    event.start_ns = json.at("start_ns");
    event.end_ns = event.start_ns;
    process.events.push_back(std::move(event));
  }
  return process;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::vector<RankEvents> processes;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (entry.path().filename().string().starts_with("collectives-")) {
        processes.push_back(collectives_of(entry.path()));
      }
    }
    gradsync::watch::add_hook_events(argv[i], processes);
    std::cout << watch_json(gradsync::watch::summarize(processes)).dump() << "\n";
  }
  return 0;
}
