#include "harness/watch/read/hook_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/json_fields.h"
#include "harness/base/whole_file.h"
#include "harness/watch/inject/preload/fnv_1a.h"
#include "harness/watch/read/process_files.h"

namespace gradsync::watch {

using nlohmann::json;

namespace {

constexpr std::array<std::pair<const char*, EventKind>, 11> kEventKinds{{
    {"forward", EventKind::Forward},
    {"backward", EventKind::Backward},
    {"optimizer_step", EventKind::OptimizerStep},
    {"no_sync_enter", EventKind::NoSyncEnter},
    {"no_sync_leave", EventKind::NoSyncLeave},
    {"wrap", EventKind::Wrap},
    {"sync", EventKind::Sync},
    {"zero_grad", EventKind::ZeroGrad},
    {"gradient_use", EventKind::GradientUse},
    {"comm_hook", EventKind::CommHook},
    {"call", EventKind::Call},
}};

int read_int(JsonFields& fields, const char* name, std::int64_t at_least,
             std::optional<std::int64_t> fallback = {}) {
  const std::int64_t value = fields.integer(name, at_least, fallback);
  if (value > std::numeric_limits<int>::max()) {
    fields.fail(name, fmt::format("an integer of at most {}", std::numeric_limits<int>::max()));
  }
  return static_cast<int>(value);
}

Event read_event(JsonFields& fields, EventKind kind) {
  Event event;
  event.kind = kind;
  event.start_ns = fields.integer("start_ns", 0);
  event.end_ns = fields.integer("end_ns", event.start_ns, event.start_ns);
  event.name = fields.string("name", "");
  event.bytes = fields.integer("bytes", -1, -1);
  event.object = fields.integer("object", 0, 0);
  event.thread = fields.integer("thread", 0, 0);
  event.file = fields.string("file", "");
  event.line = read_int(fields, "line", 0, 0);
  event.detail = fields.string("detail", "");
  return event;
}

void read_start(JsonFields& fields, RankEvents& events) {
  const std::string schema = fields.string("schema");
  if (schema != kHookSchema) fields.fail("schema", kHookSchema);
  events.pid = fields.positive_int("pid");
  fields.string("python");
}

// What wrappers tell of their groups; "": this line is none of a wrapper's.
constexpr std::array<std::pair<const char*, GroupRole>, 4> kToldRoles{{
    {"", GroupRole::Unknown},
    {"shard", GroupRole::Shard},
    {"replicate", GroupRole::Replicate},
    {"data_parallel", GroupRole::DataParallel},
}};

std::vector<int> read_ranks(JsonFields& fields) {
  const json& list = fields.raw("ranks", true);
  const auto is_rank = [](const json& value) {
    return value.is_number_integer() && value >= 0 && value <= std::numeric_limits<int>::max();
  };
  if (!list.is_array() || !std::ranges::all_of(list, is_rank)) {
    fields.fail("ranks", "a list of ranks");
  }
  return list.get<std::vector<int>>();
}

Group read_group(JsonFields& fields) {
  Group group;
  group.name = fields.string("name");
  group.number = nonzero_fnv_1a(group.name);
  group.ranks = read_ranks(fields);
  group.axis = fields.string("axis", "");
  group.replicas = fields.string("replicas", "");
  const std::string role = fields.string("role", "");
  const auto* const told =
      std::ranges::find_if(kToldRoles, [&](const auto& entry) { return role == entry.first; });
  if (told == kToldRoles.end())
    fields.fail("role", "\"shard\", \"replicate\" or \"data_parallel\"");
  group.role = told->second;
  group.is_told = !role.empty();
  return group;
}

TensorPeak read_gpu_peak(JsonFields& fields) {
  TensorPeak peak{.bytes = {}, .is_on_gpu = true};
  const std::int64_t bytes = fields.integer("bytes", -1);
  const std::string sentence = fields.string("sentence", "");
  if (bytes >= 0) {
    peak.bytes = bytes;
  } else {
    peak.bytes = Unknown{sentence};
  }
  return peak;
}

// Of a process that was killed before it could say it at its end.
void take_last_gpu_peak(RankEvents& process) {
  if (process.peak.is_on_gpu) return;
  for (const Event& event : process.events) {
    if (event.kind != EventKind::OptimizerStep || event.bytes < 0) continue;
    process.peak = {.bytes = event.bytes, .is_on_gpu = true};
  }
}

std::int64_t last_start_ns(const RankEvents& process) {
  std::int64_t last_ns = 0;
  for (const Event& event : process.events) last_ns = std::max(last_ns, event.start_ns);
  return last_ns;
}

void read_line(const json& line, const std::string& place, RankEvents& events) {
  JsonFields fields(line, place);
  const std::string kind = fields.string("kind");
  const auto* const known = std::find_if(kEventKinds.begin(), kEventKinds.end(),
                                         [&](const auto& entry) { return kind == entry.first; });
  if (kind == "start") {
    read_start(fields, events);
  } else if (kind == "rank") {
    events.rank = read_int(fields, "rank", 0);
    events.world_size = read_int(fields, "world_size", 1);
  } else if (kind == "peers") {
    events.peers = fields.string("detail");
  } else if (kind == "group") {
    add_group(events.groups, read_group(fields));
  } else if (kind == "held_gradients") {
    events.held[fields.integer("object", 1)] = {
        fields.integer("shard_bytes", 0), fields.integer("reduced_bytes", -1),
        fields.integer("whole_bytes", 0), fields.integer("gathered_bytes", 0, 0)};
  } else if (kind == "gpu_peak") {
    events.peak = read_gpu_peak(fields);
  } else if (kind == "fault" || kind == "full") {
    events.faults.push_back(fields.string("sentence"));
    if (kind == "full") events.complete_until_ns = last_start_ns(events);
  } else if (known != kEventKinds.end()) {
    events.events.push_back(read_event(fields, known->second));
  } else {
    fields.fail("kind", "a kind of event");
  }
  fields.finish();
}

// What every line has, whatever its kind.
struct HookLine {
  json kind;
};

constexpr auto fields_of(const HookLine*) {
  return std::tuple{field("kind", &HookLine::kind).later()};
}

bool is_start(const json& line, const std::string& place) {
  return line.is_object() && read_fields<HookLine>(line, place).kind == "start";
}

bool overlap(const Event& a, const Event& b) {
  return a.start_ns <= b.end_ns && b.start_ns <= a.end_ns;
}

// The indices of the events of one kind, by time.
std::vector<std::size_t> places_of_kind(const std::vector<Event>& events, EventKind kind) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].kind == kind) indices.push_back(i);
  }
  return indices;
}

void take_what_the_hook_knows(Event& event, const Event& hook) {
  if (hook.object != 0) event.object = hook.object;
  if (!hook.name.empty()) event.name = hook.name;
  if (!hook.file.empty()) {
    event.file = hook.file;
    event.line = hook.line;
  }
  if (!hook.detail.empty()) event.detail = hook.detail;
  if (hook.bytes >= 0) event.bytes = hook.bytes;
  event.start_ns = std::min(event.start_ns, hook.start_ns);
  event.end_ns = std::max(event.end_ns, hook.end_ns);
}

// Joins the events of `kind` of both sides that overlap. Every event of the hook that the library
// did not see is added; where `hooks_times_count`, so is every other, in place of the library's
// but with its count of gradients. A count of none is not taken: where autograd is compiled the
// library sees no gradient accumulated, only what a compiler runs while it traces, and the hook is
// around torch.autograd.backward alone, which always accumulates.
void join(std::vector<Event>& native, const std::vector<Event>& hook, EventKind kind,
          bool hooks_times_count) {
  const auto seen = places_of_kind(native, kind);
  std::vector<Event> added;
  std::vector<bool> replaced(native.size(), false);
  std::size_t first = 0;
  for (Event event : hook) {
    if (event.kind != kind) continue;
    while (first < seen.size() && native[seen[first]].end_ns < event.start_ns) ++first;
    bool known = false;
    for (std::size_t i = first; i < seen.size(); ++i) {
      Event& other = native[seen[i]];
      if (other.start_ns > event.end_ns) break;
      if (!overlap(other, event)) continue;
      known = true;
      if (hooks_times_count) {
        if (event.detail.empty() && !accumulates_nothing(other)) event.detail = other.detail;
        replaced[seen[i]] = true;
      } else {
        take_what_the_hook_knows(other, event);
      }
    }
    if (!known || hooks_times_count) added.push_back(std::move(event));
  }
  std::vector<Event> kept;
  for (std::size_t i = 0; i < native.size(); ++i) {
    if (!replaced[i]) kept.push_back(std::move(native[i]));
  }
  native = std::move(kept);
  native.insert(native.end(), added.begin(), added.end());
  sort_by_time(native);
}

}  // namespace

RankEvents parse_hook_events(std::string_view text, const std::string& name) {
  RankEvents events;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      events.faults.push_back(fmt::format("{}: its last line is cut off", name));
      break;
    }
    const std::string place = fmt::format("{} line {}", name, number);
    const json line = parse_json(text.substr(0, end), place);
    if (number == 1 && !is_start(line, place)) {
      throw ConfigError(fmt::format("{}: got no \"start\", expected one in the first line", place));
    }
    read_line(line, place, events);
    text.remove_prefix(end + 1);
  }
  sort_by_time(events.events);
  take_last_gpu_peak(events);
  return events;
}

RankEvents read_hook_events(const std::string& path) {
  return parse_hook_events(whole_file(path), path);
}

void merge(RankEvents& native, const RankEvents& hook) {
  // The hook asks the default group; the library sees those that communicate, of which each may be
  // a part of the job.
  if (hook.rank >= 0 && hook.world_size >= native.world_size) {
    native.rank = hook.rank;
    native.world_size = hook.world_size;
  }
  native.complete_until_ns = std::min(native.complete_until_ns, hook.complete_until_ns);
  if (native.pid == 0) native.pid = hook.pid;
  if (native.peers.empty()) native.peers = hook.peers;
  if (hook.peak.is_on_gpu) native.peak = hook.peak;
  native.groups = hook.groups;
  native.held = hook.held;
  join(native.events, hook.events, EventKind::Forward, false);
  join(native.events, hook.events, EventKind::OptimizerStep, false);
  join(native.events, hook.events, EventKind::ZeroGrad, false);
  join(native.events, hook.events, EventKind::Backward, true);
  for (const EventKind kind :
       {EventKind::NoSyncEnter, EventKind::NoSyncLeave, EventKind::Wrap, EventKind::Sync,
        EventKind::GradientUse, EventKind::CommHook, EventKind::Call}) {
    join(native.events, hook.events, kind, false);
  }
  native.faults.insert(native.faults.end(), hook.faults.begin(), hook.faults.end());
}

void add_hook_events(const std::string& directory, std::vector<RankEvents>& ranks) {
  for (const std::string& path : files_with(directory, kHookFilePrefix, kHookFileSuffix)) {
    RankEvents hook;
    try {
      hook = read_hook_events(path);
    } catch (const ConfigError& error) {
      hook.faults.emplace_back(error.what());
    }
    const auto same = std::find_if(ranks.begin(), ranks.end(), [&](const RankEvents& rank) {
      return rank.pid == hook.pid && hook.pid != 0;
    });
    if (same == ranks.end()) {
      ranks.push_back(std::move(hook));
    } else {
      merge(*same, hook);
    }
  }
}

}  // namespace gradsync::watch
