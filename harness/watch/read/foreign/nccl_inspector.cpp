#include "harness/watch/read/foreign/nccl_inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "harness/base/json_fields.h"
#include "harness/base/outside_strings.h"
#include "harness/watch/inject/preload/fnv_1a.h"
#include "harness/watch/read/foreign/held_collectives.h"
#include "harness/watch/read/foreign/printable.h"
#include "harness/watch/read/group_roles.h"

namespace gradsync::watch {

using nlohmann::json;

namespace {

constexpr std::size_t kBeginning = 4096;
constexpr std::int64_t kMostMicroseconds = 4'000'000'000'000'000;  // in nanoseconds they fit

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNames{{
    {"AllReduce", "all_reduce"},
    {"AllGather", "all_gather"},
    {"ReduceScatter", "reduce_scatter"},
    {"Broadcast", "broadcast"},
    {"Reduce", "reduce"},
    {"AllToAll", "all_to_all"},
    {"Send", "send"},
    {"Recv", "recv"},
}};

std::string name_of(const std::string& collective) {
  for (const auto& [theirs, ours] : kNames) {
    if (collective == theirs) return std::string(ours);
  }
  return collective;
}

// Takes the next object off `text`; nothing where it is not whole.
std::optional<std::string_view> take_object(std::string_view& text) {
  int depth = 0;
  std::size_t length = 0;  // 0: it has no end yet
  each_outside_strings(text, [&](char c, std::size_t place) {
    if (c == '{') ++depth;
    if (c == '}' && --depth <= 0) length = place + 1;
    return length == 0;
  });
  if (length == 0) return std::nullopt;
  const std::string_view object = text.substr(0, length);
  text.remove_prefix(length);
  return object;
}

class Inspected {
 public:
  explicit Inspected(const std::string& name) : name_(name) {}

  void add(std::string_view text) {
    place_ = fmt::format("object {}.", ++count_);
    const json object = parse_json(text, fmt::format("{}: object {}", name_, count_));
    JsonFields fields(object, name_, place_);
    JsonFields header(fields.raw("header", true), name_, place_ + "header.");
    JsonFields metadata(fields.raw("metadata", true), name_, place_ + "metadata.");
    JsonFields performance(fields.raw("coll_perf", true), name_, place_ + "coll_perf.");
    see_place(header, metadata);
    rank_.events.push_back(event_of(header, metadata, performance));
  }

  void cut_off() { rank_.faults.push_back(fmt::format("{}: its last object is cut off", name_)); }

  RankEvents finish() {
    rank_.file_kind = kInspectorKind;
    sort_by_time(rank_.events);
    assign_roles(rank_);
    rank_.faults.push_back(held_collectives(rank_));
    return std::move(rank_);
  }

 private:
  static int small(JsonFields& fields, const char* field, int at_least) {
    const std::int64_t value = fields.integer(field, at_least);
    if (value > std::numeric_limits<int>::max()) fields.fail(field, "a smaller number");
    return static_cast<int>(value);
  }

  void see_place(JsonFields& header, JsonFields& metadata) {
    const int rank = small(header, "rank", 0);
    const int ranks = small(header, "n_ranks", 1);
    if (rank >= ranks) header.fail("rank", "one below n_ranks");
    if (ranks > rank_.world_size) {
      rank_.rank = rank;
      rank_.world_size = ranks;
    }
    const std::int64_t pid = metadata.integer("pid", 0);
    if (rank_.pid != 0 && rank_.pid != pid) metadata.fail("pid", "one process in a file");
    rank_.pid = pid;
  }

  Event event_of(JsonFields& header, JsonFields& metadata, JsonFields& performance) const {
    Event event;
    event.kind = EventKind::Collective;
    event.name = name_of(printable(performance.string("coll")));
    event.bytes = performance.integer("coll_msg_size_bytes", 0);
    event.detail = printable(header.string("id"));
    event.object = nonzero_fnv_1a(event.detail);
    const std::int64_t told_us = metadata.integer("dump_timestamp_us", 0);
    const std::int64_t took_us = performance.integer("coll_exec_time_us", 0);
    if (told_us > kMostMicroseconds || took_us > told_us) {
      metadata.fail("dump_timestamp_us", "a time behind the collective's");
    }
    event.end_ns = told_us * 1000;
    event.start_ns = event.end_ns - took_us * 1000;
    return event;
  }

  const std::string& name_;
  RankEvents rank_;
  std::string place_;
  int count_ = 0;
};

}  // namespace

bool is_inspector_file(std::string_view text) {
  const std::string_view beginning = text.substr(0, kBeginning);
  return beginning.find("\"coll_perf\"") != std::string_view::npos &&
         beginning.find("\"inspector_output_format_version\"") != std::string_view::npos;
}

RankEvents parse_inspector_file(std::string_view text, const std::string& name) {
  Inspected inspected(name);
  while (const auto object = take_object(text)) inspected.add(*object);
  if (text.find_first_not_of(" \t\r\n") != std::string_view::npos) inspected.cut_off();
  return inspected.finish();
}

}  // namespace gradsync::watch
