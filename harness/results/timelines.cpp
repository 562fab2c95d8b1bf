#include "harness/results/timelines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "harness/base/errors.h"
#include "harness/base/field_columns.h"
#include "harness/base/json_fields.h"
#include "harness/results/timeline_fields.h"

namespace gradsync::results {

using nlohmann::json;

namespace {

struct RankTimelines {
  int rank = 0;
  std::optional<double> start_s;  // RankRecord::timeline_start_s
  Columns<TimelineEvent> events;
  Columns<TimelinePhase> phases;
};

GRADSYNC_FIELDS_OF(RankTimelines, rank, start_s, events, phases)

struct TimelinesLine {
  std::vector<RankTimelines> ranks;
};

constexpr auto fields_of(const TimelinesLine*) {
  return std::tuple{constant("schema", kTimelinesSchema), field("ranks", &TimelinesLine::ranks)};
}

struct MemoryLine {
  Columns<MemoryTimelinePoint> points;
};

constexpr auto fields_of(const MemoryLine*) {
  return std::tuple{constant("schema", kMemoryTimelineSchema),
                    field("points", &MemoryLine::points)};
}

bool has_timelines(const RankRecord& rank) {
  return !rank.timeline_events.empty() || !rank.timeline_phases.empty();
}

const RankRecord* rank_with_memory(const TrialRecord& trial) {
  const auto found = std::ranges::find_if(
      trial.ranks, [](const RankRecord& rank) { return !rank.memory_timeline.empty(); });
  return found == trial.ranks.end() ? nullptr : &*found;
}

template <typename Line>
std::string whole_line(const Line& line) {
  return write_fields(line).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

template <typename Line>
Line parse_part(const std::string& text, const std::string& path, const FilePart& part) {
  const std::string where = fmt::format("{}: bytes {} to {}: not the timelines of a trial", path,
                                        part.offset, part.offset + part.bytes);
  try {
    return read_fields<Line>(parse_json(text), where);
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format("{}: {}", where, error.what()));
  }
}

}  // namespace

std::string timelines_line(const TrialRecord& trial) {
  if (std::ranges::none_of(trial.ranks, has_timelines)) return "";
  TimelinesLine line;
  for (const RankRecord& rank : trial.ranks) {
    line.ranks.push_back(
        {rank.rank, rank.timeline_start_s, {rank.timeline_events}, {rank.timeline_phases}});
  }
  return whole_line(line);
}

std::string memory_timeline_line(const TrialRecord& trial) {
  const RankRecord* rank = rank_with_memory(trial);
  return rank == nullptr ? "" : whole_line(MemoryLine{{rank->memory_timeline}});
}

TrialRecord without_timelines(const TrialRecord& trial) {
  TrialRecord out = trial;
  for (RankRecord& rank : out.ranks) {
    if (has_timelines(rank)) rank.timeline_start_s.reset();
    rank.timeline_events.clear();
    rank.timeline_phases.clear();
    rank.memory_timeline.clear();
  }
  return out;
}

TimelinesFile::TimelinesFile(const std::string& directory)
    : path_(directory + "/" + kTimelinesFile),
      fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)),
      size_(fd_ < 0 ? 0 : ::lseek(fd_, 0, SEEK_END)) {}

TimelinesFile::~TimelinesFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::string TimelinesFile::text_of(const FilePart& part) const {
  if (part.offset < 0 || part.bytes <= 0 || part.offset > size_ - part.bytes) return "";
  std::string text(static_cast<std::size_t>(part.bytes), '\0');
  return ::pread(fd_, text.data(), text.size(), part.offset) == part.bytes ? text : "";
}

bool TimelinesFile::read_into(TrialRecord& trial) const {
  const std::string text = text_of(*trial.timelines_at);
  if (text.empty()) return false;
  auto line = parse_part<TimelinesLine>(text, path_, *trial.timelines_at);
  for (RankTimelines& from : line.ranks) {
    const auto rank = std::ranges::find(trial.ranks, from.rank, &RankRecord::rank);
    if (rank == trial.ranks.end()) continue;
    rank->timeline_start_s = from.start_s;
    rank->timeline_events = std::move(from.events.rows);
    rank->timeline_phases = std::move(from.phases.rows);
  }
  return true;
}

std::vector<MemoryTimelinePoint> TimelinesFile::memory_of(const TrialRecord& trial) const {
  const RankRecord* rank = rank_with_memory(trial);
  if (rank != nullptr) return rank->memory_timeline;
  if (!trial.memory_timeline_at) return {};
  const std::string text = text_of(*trial.memory_timeline_at);
  if (text.empty()) return {};
  return parse_part<MemoryLine>(text, path_, *trial.memory_timeline_at).points.rows;
}

}  // namespace gradsync::results
