#include "harness/report/trace.h"

#include <fmt/format.h>

#include <string>

#include "harness/report/cell_group.h"

namespace gradsync::report {

using nlohmann::json;
using results::RankRecord;

namespace {

json name_event(const char* kind, std::size_t process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

json span(std::size_t process, int thread, const std::string& name, double start_s, double end_s,
          json arguments) {
  return {{"ph", "X"},
          {"pid", process},
          {"tid", thread},
          {"name", name},
          {"ts", start_s * 1e6},
          {"dur", (end_s - start_s) * 1e6},
          {"args", std::move(arguments)}};
}

void add_rank(json& events, std::size_t process, const RankRecord& rank) {
  const int compute = 2 * rank.rank;
  const int communication = compute + 1;
  events.push_back(name_event("thread_name", process, compute, fmt::format("rank {}", rank.rank)));
  events.push_back(name_event("thread_name", process, communication,
                              fmt::format("rank {} communication", rank.rank)));
  for (const auto& phase : rank.timeline_phases) {
    events.push_back(span(process, compute, phase.phase, phase.start_s, phase.end_s,
                          {{"micro_batch", phase.micro_batch}}));
  }
  for (const auto& event : rank.timeline_events) {
    const std::string name =
        event.bucket < 0 ? event.op : fmt::format("{} bucket {}", event.op, event.bucket);
    events.push_back(span(process, communication, name, event.start_s, event.end_s,
                          {{"micro_batch", event.micro_batch}, {"bytes", event.bytes}}));
  }
}

}  // namespace

json trace_json(const std::vector<results::TrialRecord>& trials) {
  json events = json::array();
  std::size_t process = 0;
  for (const CellGroup& group : group_by_cell({}, trials, {})) {
    const auto ok = group.ok_trials();
    if (ok.empty()) continue;
    const std::string name =
        fmt::format("{} {} {} {}", group.part, group.cell.value("topology", ""),
                    group.cell.value("model", ""), group.cell.value("strategy", ""));
    events.push_back(name_event("process_name", process, 0, name));
    for (const RankRecord& rank : ok.back()->ranks) add_rank(events, process, rank);
    ++process;
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
}

}  // namespace gradsync::report
