#include "harness/watch/read/foreign/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/watch/inject/preload/c10d_operations.h"
#include "harness/watch/inject/preload/fnv_1a.h"
#include "harness/watch/read/foreign/element_bytes.h"
#include "harness/watch/read/foreign/held_collectives.h"
#include "harness/watch/read/foreign/printable.h"
#include "harness/watch/read/group_roles.h"

namespace gradsync::watch {

using nlohmann::json;

namespace {

constexpr std::string_view kMajor = "2.";

// How torch calls its operations there, in any of its spellings, and how we do. The first that is
// part of a name counts.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kNames{{
    {"barrier", "barrier"},
    {"all_reduce", "all_reduce"},
    {"allreduce", "all_reduce"},
    {"all_gather", "all_gather"},
    {"allgather", "all_gather"},
    {"ALLGATHER", "all_gather"},
    {"reduce_scatter", "reduce_scatter"},
    {"REDUCE_SCATTER", "reduce_scatter"},
    {"all_to_all", "all_to_all"},
    {"alltoall", "all_to_all"},
    {"broadcast", "broadcast"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"reduce", "reduce"},
    {"send", "send"},
    {"recv", "recv"},
}};

// "all_reduce" of "nccl:all_reduce", "send" of "nccl:send 0->1".
std::string name_of(std::string_view profiled) {
  const std::size_t backend = profiled.find(':');
  if (backend != std::string_view::npos) profiled.remove_prefix(backend + 1);
  profiled = profiled.substr(0, profiled.find(' '));
  for (const auto& [spelling, name] : kNames) {
    if (profiled.find(spelling) != std::string_view::npos) return std::string(name);
  }
  return std::string(profiled);
}

// The number at the end of the name, before an extension that is none.
int rank_in(const std::string& path) {
  constexpr const char* kDigits = "0123456789";
  const std::filesystem::path file(path);
  const std::string extension = file.extension().string();
  const bool is_number = extension.find_first_not_of(kDigits, 1) == std::string::npos;
  const std::string name = (is_number ? file.filename() : file.stem()).string();
  const std::string digits = name.substr(name.find_last_not_of(kDigits) + 1);
  int rank = -1;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  return digits.empty() || read.ec != std::errc() ? -1 : rank;
}

class Dump {
 public:
  Dump(const json& dump, const std::string& path) : fields_(dump, path), path_(path) {}

  RankEvents read() {
    rank_.file_kind = kFlightRecorderKind;
    rank_.rank = rank_in(path_);
    check_version();
    if (fields_.has("pg_config")) read_groups(fields_.raw("pg_config", true));
    if (fields_.has("entries")) read_entries(fields_.raw("entries", true));
    if (rank_.rank >= rank_.world_size && rank_.world_size > 0) rank_.rank = -1;
    sort_by_time(rank_.events);
    assign_roles(rank_);
    rank_.faults.push_back(held_collectives(rank_));
    return std::move(rank_);
  }

 private:
  [[noreturn]] void fail(const std::string& field, const json& got,
                         const std::string& expected) const {
    throw ConfigError(path_, field, quote(got), expected);
  }

  void check_version() {
    const std::string version = fields_.string("version");
    if (!version.starts_with(kMajor)) fields_.fail("version", "one that begins with \"2.\"");
  }

  void read_groups(const json& groups) {
    if (!groups.is_object()) fail("pg_config", groups, "process groups by name");
    for (const auto& [name, told] : groups.items()) {
      const std::string field = fmt::format("pg_config.{}", name);
      JsonFields fields(told, path_, field + ".");
      Group group;
      group.name = printable(fields.string("name"));
      group.number = nonzero_fnv_1a(group.name);
      group.axis = axis_of_description(printable(fields.string("desc", "")));
      group.ranks = ranks_in(fields.string("ranks"), field);
      rank_.world_size = std::max(rank_.world_size, static_cast<int>(group.ranks.size()));
      rank_.groups.push_back(std::move(group));
    }
  }

  // "[0, 1]", or "" of a group without ranks.
  std::vector<int> ranks_in(const std::string& text, const std::string& field) const {
    std::vector<int> ranks;
    const json list = json::parse(text.empty() ? "[]" : text, nullptr, false);
    const auto is_rank = [](const json& value) {
      return value.is_number_integer() && value >= 0 && value <= std::numeric_limits<int>::max();
    };
    if (!list.is_array() || !std::ranges::all_of(list, is_rank)) {
      fail(field + ".ranks", text, "ranks such as \"[0, 1]\"");
    }
    return list.get<std::vector<int>>();
  }

  void read_entries(const json& entries) {
    if (!entries.is_array()) fail("entries", entries, "a list");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      rank_.events.push_back(
          entry_of(JsonFields(entries[i], path_, fmt::format("entries[{}].", i))));
    }
    if (entries.empty()) return;
    const std::int64_t before =
        JsonFields(entries[0], path_, "entries[0].").integer("record_id", 0);
    if (before > 0) {
      rank_.faults.push_back(fmt::format(
          "not in this file: {} collectives before the first, its ring holds the last {}", before,
          entries.size()));
    }
  }

  Event entry_of(JsonFields fields) const {
    Event event;
    event.kind = EventKind::Collective;
    event.name = name_of(printable(fields.string("profiling_name")));
    event.start_ns = event.end_ns = fields.integer("time_created_ns", 0);
    const json& group = fields.raw("process_group", true);
    if (!group.is_array() || group.empty() || !group[0].is_string()) {
      fields.fail("process_group", "its name and description");
    }
    event.detail = printable(group[0].get<std::string>());
    event.object = nonzero_fnv_1a(event.detail);
    const char* sized = is_sized_by_output(event.name) ? "output" : "input";
    event.bytes = event.name == "barrier" ? 0 : bytes_of(fields, sized);
    read_place(fields, event);
    return event;
  }

  // Returns -1 where it is not told.
  std::int64_t bytes_of(JsonFields& fields, const std::string& which) const {
    const json& sizes = fields.raw(which + "_sizes", true);
    const json& types = fields.raw(which + "_dtypes", false);
    if (!sizes.is_array()) fields.fail(which + "_sizes", "a list of sizes for each tensor");
    if (!types.is_array() || types.size() != sizes.size()) return -1;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<std::int64_t> lengths = lengths_of(fields, which, sizes[i]);
      const std::string type = types[i].is_string() ? types[i].get<std::string>() : "";
      bytes = sum_of_known(bytes, tensor_bytes(type, lengths));
    }
    return bytes;
  }

  static std::vector<std::int64_t> lengths_of(const JsonFields& fields, const std::string& which,
                                              const json& sizes) {
    const auto is_length = [](const json& length) {
      return length.is_number_integer() && length >= 0;
    };
    if (!sizes.is_array() || !std::ranges::all_of(sizes, is_length)) {
      fields.fail(which + "_sizes", "a list of sizes, at least 0, for each tensor");
    }
    return sizes.get<std::vector<std::int64_t>>();
  }

  // The innermost place that is none of torch's own.
  static void read_place(JsonFields& fields, Event& event) {
    const json& frames = fields.raw("frames", false);
    if (frames.is_null()) return;
    if (!frames.is_array()) fields.fail("frames", "a list of frames");
    for (const json& each : frames) {
      JsonFields frame(each, fields.file(), "frames.");
      const std::string file = printable(frame.string("filename"));
      const std::int64_t line = frame.integer("line", 0);
      if (!file.ends_with(".py") || file.find("/torch/") != std::string::npos) continue;
      event.file = file;
      event.line = static_cast<int>(std::min<std::int64_t>(line, std::numeric_limits<int>::max()));
      return;
    }
  }

  JsonFields fields_;
  const std::string& path_;
  RankEvents rank_;
};

}  // namespace

bool is_flight_record(const json& value) {
  if (!value.is_object()) return false;
  const JsonFields fields(value, "");
  return fields.has("version") && (fields.has("entries") || fields.has("pg_config"));
}

RankEvents events_of_dump(const json& dump, const std::string& path) {
  return Dump(dump, path).read();
}

}  // namespace gradsync::watch
