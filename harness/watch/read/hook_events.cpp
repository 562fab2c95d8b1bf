#include "harness/watch/read/hook_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/program_files.h"
#include "harness/base/whole_file.h"
#include "harness/watch/inject/preload/fnv_1a.h"
#include "harness/watch/read/group_roles.h"
#include "harness/watch/read/hook_lines.h"

namespace gradsync::watch {

using nlohmann::json;

constexpr auto names_of(const EventKind*) {
  return std::array{std::pair{EventKind::Forward, "forward"},
                    std::pair{EventKind::Backward, "backward"},
                    std::pair{EventKind::OptimizerStep, "optimizer_step"},
                    std::pair{EventKind::NoSyncEnter, "no_sync_enter"},
                    std::pair{EventKind::NoSyncLeave, "no_sync_leave"},
                    std::pair{EventKind::Wrap, "wrap"},
                    std::pair{EventKind::Sync, "sync"},
                    std::pair{EventKind::ZeroGrad, "zero_grad"},
                    std::pair{EventKind::GradientUse, "gradient_use"},
                    std::pair{EventKind::CommHook, "comm_hook"},
                    std::pair{EventKind::Call, "call"},
                    std::pair{EventKind::InnerForward, "inner_forward"}};
}

constexpr auto fields_of(const Event*) {
  return std::tuple{field("kind", &Event::kind),
                    field("start_ns", &Event::start_ns).at_least(0),
                    GRADSYNC_LATER_FIELDS(Event, end_ns, name),
                    field("bytes", &Event::bytes).later().at_least(-1),
                    field("object", &Event::object).later().at_least(0),
                    field("thread", &Event::thread).later().at_least(0),
                    field("file", &Event::file).later(),
                    field("line", &Event::line).later().at_least(0),
                    field("inside", &Event::inside).later(),
                    field("inside_line", &Event::inside_line).later().at_least(0),
                    field("detail", &Event::detail).later()};
}

void check_fields(const Event& event, const FieldCheck& check) {
  check.that(event.end_ns == 0 || event.end_ns >= event.start_ns, "end_ns",
             fmt::format("an integer of at least {}", event.start_ns));
}

constexpr auto fields_of(const JobLine*) {
  return std::tuple{field("file", &JobLine::file), field("line", &JobLine::line).at_least(1),
                    field("text", &JobLine::text)};
}

constexpr auto fields_of(const GpuSpan*) {
  return std::tuple{GRADSYNC_FIELDS_FROM(0, GpuSpan, start_ns, end_ns)};
}

constexpr auto fields_of(const HeldGradients*) {
  return std::tuple{field("shard_bytes", &HeldGradients::shard_bytes).at_least(0),
                    field("reduced_bytes", &HeldGradients::reduced_bytes).at_least(-1),
                    field("whole_bytes", &HeldGradients::whole_bytes).at_least(0),
                    field("gathered_bytes", &HeldGradients::gathered_bytes).later().at_least(0)};
}

namespace {

struct StartLine {
  std::int64_t pid = 0;
  std::string python;
};

struct PeersLine {
  std::string detail;
};

// What wrappers tell of their groups; Nothing: this line is none of a wrapper's.
enum class ToldRole { Nothing, Shard, Replicate, DataParallel };
constexpr std::array kToldRoles{GroupRole::Unknown, GroupRole::Shard, GroupRole::Replicate,
                                GroupRole::DataParallel};

struct GroupLine : Group {
  ToldRole told = ToldRole::Nothing;
};

struct HeldLine {
  std::int64_t object = 0;
  HeldGradients held;
};

struct StackLine {
  int number = 0;
  std::vector<JobLine> lines;
};

struct GpuPeakLine {
  std::int64_t bytes = -1;
  std::optional<std::int64_t> reserved_bytes;
  std::string sentence;
};

struct ProfiledLine {
  GpuSpan span;
};

constexpr auto names_of(const ToldRole*) {
  return std::array{std::pair{ToldRole::Nothing, ""}, std::pair{ToldRole::Shard, "shard"},
                    std::pair{ToldRole::Replicate, "replicate"},
                    std::pair{ToldRole::DataParallel, "data_parallel"}};
}

constexpr auto fields_of(const StartLine*) {
  return std::tuple{constant("kind", "start"), constant("schema", kHookSchema),
                    field("pid", &StartLine::pid).at_least(1), field("python", &StartLine::python)};
}

constexpr auto fields_of(const PeersLine*) {
  return std::tuple{constant("kind", "peers"), field("detail", &PeersLine::detail)};
}

constexpr auto fields_of(const GroupLine*) {
  return std::tuple{constant("kind", "group"),
                    field("name", &Group::name),
                    field("ranks", &Group::ranks).at_least(0),
                    field("axis", &Group::axis).later(),
                    field("role", &GroupLine::told).later(),
                    field("replicas", &Group::replicas).later()};
}

constexpr auto fields_of(const HeldLine*) {
  return std::tuple{constant("kind", "held_gradients"),
                    field("object", &HeldLine::object).at_least(1), beside(&HeldLine::held)};
}

constexpr auto fields_of(const StackLine*) {
  return std::tuple{constant("kind", "work_stack"), field("number", &StackLine::number).at_least(1),
                    field("lines", &StackLine::lines)};
}

constexpr auto fields_of(const GpuPeakLine*) {
  return std::tuple{constant("kind", "gpu_peak"), field("bytes", &GpuPeakLine::bytes).at_least(-1),
                    field("reserved_bytes", &GpuPeakLine::reserved_bytes).later().at_least(0),
                    field("sentence", &GpuPeakLine::sentence).later()};
}

constexpr auto fields_of(const ProfiledLine*) {
  return std::tuple{constant("kind", "profiled"), beside(&ProfiledLine::span)};
}

Group group_of(GroupLine line) {
  line.number = nonzero_fnv_1a(line.name);
  line.role = kToldRoles.at(static_cast<std::size_t>(line.told));
  line.is_told = line.told != ToldRole::Nothing;
  return line;
}

Event event_of(const json& line, const std::string& place) {
  Event event = read_only_fields<Event>(line, place);
  if (event.end_ns == 0) event.end_ns = event.start_ns;
  return event;
}

TensorPeak gpu_peak_of(const GpuPeakLine& line) {
  if (line.bytes < 0) return {.bytes = Unknown{line.sentence}, .is_on_gpu = true};
  return {.bytes = line.bytes, .is_on_gpu = true, .reserved_bytes = line.reserved_bytes};
}

// Takes the last peak that was recorded, where a process was killed before it could record one at
// its end.
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

void read_line(const json& line, const std::string& kind, const std::string& place,
               RankEvents& events) {
  if (kind == "start") {
    events.pid = read_only_fields<StartLine>(line, place).pid;
  } else if (kind == "rank") {
    const auto [rank, world_size] = read_only_fields<RankLine>(line, place);
    events.rank = rank;
    events.world_size = world_size;
  } else if (kind == "peers") {
    events.peers = read_only_fields<PeersLine>(line, place).detail;
  } else if (kind == "group") {
    add_group(events.groups, group_of(read_only_fields<GroupLine>(line, place)));
  } else if (kind == "held_gradients") {
    const auto held = read_only_fields<HeldLine>(line, place);
    events.held[held.object] = held.held;
  } else if (kind == "work_stack") {
    auto stack = read_only_fields<StackLine>(line, place);
    events.stacks[stack.number] = std::move(stack.lines);
  } else if (kind == "gpu_peak") {
    events.peak = gpu_peak_of(read_only_fields<GpuPeakLine>(line, place));
  } else if (kind == "profiled") {
    events.profiled = read_only_fields<ProfiledLine>(line, place).span;
  } else if (kind == "fault" || kind == "full") {
    events.faults.push_back(read_only_fields<FaultLine>(line, place).sentence);
    if (kind == "full") events.complete_until_ns = last_start_ns(events);
  } else if (!read_parameter_line(line, kind, place, events)) {
    events.events.push_back(event_of(line, place));
  }
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
  if (!hook.inside.empty()) {
    event.inside = hook.inside;
    event.inside_line = hook.inside_line;
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
        const bool is_own = other.start_ns >= event.start_ns;  // and not of one around it
        if (event.detail.empty() && is_own && !accumulates_nothing(other)) {
          event.detail = other.detail;
          event.bytes = other.bytes;
          event.added_bytes = other.added_bytes;
        }
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
  const bool is_whole = for_each_line(
      text, name, [&](const json& line, const std::string& kind, const std::string& place) {
        read_line(line, kind, place, events);
      });
  if (!is_whole) events.faults.push_back(fmt::format("{}: its last line is cut off", name));
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
  native.stacks = hook.stacks;
  native.profiled = hook.profiled;
  native.optimizers = hook.optimizers;
  native.exchanges = hook.exchanges;
  join(native.events, hook.events, EventKind::Forward, false);
  join(native.events, hook.events, EventKind::OptimizerStep, false);
  join(native.events, hook.events, EventKind::ZeroGrad, false);
  join(native.events, hook.events, EventKind::Backward, true);
  for (const EventKind kind :
       {EventKind::NoSyncEnter, EventKind::NoSyncLeave, EventKind::Wrap, EventKind::Sync,
        EventKind::GradientUse, EventKind::CommHook, EventKind::Call, EventKind::InnerForward}) {
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
    const auto same = std::ranges::find_if(
        ranks, [&](const RankEvents& rank) { return rank.pid == hook.pid && hook.pid != 0; });
    if (same == ranks.end()) {
      ranks.push_back(std::move(hook));
    } else {
      merge(*same, hook);
    }
  }
}

}  // namespace gradsync::watch
