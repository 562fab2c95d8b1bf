#include "harness/report/trace_events.h"

#include <fmt/format.h>

#include <utility>

namespace gradsync::report {

using nlohmann::json;

namespace {

double in_us(std::int64_t at_ns) {
  return static_cast<double>(at_ns) / 1e3;
}

}  // namespace

void TraceProcess::add_process_name(const std::string& name) {
  add("M", "process_name", 0, {{"args", {{"name", name}}}});
  add("M", "process_sort_index", 0, {{"args", {{"sort_index", process_}}}});
}

void TraceProcess::add_thread_name(int thread, const std::string& name) {
  add("M", "thread_name", thread, {{"args", {{"name", name}}}});
  add("M", "thread_sort_index", thread, {{"args", {{"sort_index", thread}}}});
}

void TraceProcess::add_thread_names(int first, int count, const std::string& name) {
  for (int i = 0; i < count; ++i) {
    add_thread_name(first + i, i == 0 ? name : fmt::format("{} {}", name, i + 1));
  }
}

void TraceProcess::add_slice(int thread, const std::string& name, const TraceSpan& span,
                             json arguments) {
  add("X", name, thread,
      {{"ts", in_us(span.start_ns)},
       {"dur", in_us(span.end_ns - span.start_ns)},
       {"args", std::move(arguments)}});
}

void TraceProcess::add_arrow(const std::string& name, int number, std::int64_t from_ns, int thread,
                             std::int64_t to_ns) {
  const json common = {{"cat", "collective"}, {"id", number}};
  json begin = common;
  begin["ts"] = in_us(from_ns);
  add("s", name, kComputeThread, std::move(begin));
  json end = common;
  end["ts"] = in_us(to_ns);
  end["bp"] = "e";  // ends in the slice around it, not in the one after
  add("f", name, thread, std::move(end));
}

void TraceProcess::add_counter(const std::string& name, std::int64_t at_ns, json values) {
  add("C", name, kComputeThread, {{"ts", in_us(at_ns)}, {"args", std::move(values)}});
}

void TraceProcess::add(const char* phase, const std::string& name, int thread, json rest) {
  rest.update({{"ph", phase}, {"name", name}, {"pid", process_}, {"tid", thread}});
  events_.push_back(std::move(rest));
}

int Rows::place(const TraceSpan& span) {
  std::size_t row = 0;
  while (row < ends_ns_.size() && ends_ns_[row] > span.start_ns) ++row;
  if (row == ends_ns_.size()) ends_ns_.emplace_back();
  ends_ns_[row] = span.end_ns;
  return static_cast<int>(row);
}

int NestingRows::place(const TraceSpan& span) {
  std::size_t row = 0;
  for (; row < open_ends_ns_.size(); ++row) {
    std::vector<std::int64_t>& open = open_ends_ns_[row];
    while (!open.empty() && open.back() <= span.start_ns) open.pop_back();
    if (open.empty() || span.end_ns <= open.back()) break;
  }
  if (row == open_ends_ns_.size()) open_ends_ns_.emplace_back();
  open_ends_ns_[row].push_back(span.end_ns);
  return static_cast<int>(row);
}

}  // namespace gradsync::report
