#include "harness/watch/read/read_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <tuple>

#include "harness/base/errors.h"
#include "harness/base/program_files.h"
#include "harness/base/whole_file.h"
#include "harness/watch/inject/preload/event_file.h"
#include "harness/watch/read/group_roles.h"
#include "harness/watch/read/hook_events.h"
#include "harness/watch/read/nccl_events.h"

namespace gradsync::watch {
namespace {

namespace fs = std::filesystem;

// As preload/loader.cpp writes them.
constexpr const char* kReachedFile = "reached";
constexpr const char* kPaperFile = "on_paper";
constexpr const char* kFaultSuffix = ".fault";

// Text of a field of fixed size. What a terminal or JSON would stumble over becomes a question
// mark.
template <std::size_t size>
std::string text_in(const char (&field)[size]) {
  std::string text(field, strnlen(field, size));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

// Returns nothing for a file that ends before its header does.
std::optional<EventFileHeader> header_of(const std::string& path, std::string_view bytes) {
  const std::string_view magic(kEventFileMagic, kMagicBytes);
  const std::string_view got = bytes.substr(0, kMagicBytes);
  // A process reserves its file before it writes there.
  const bool is_empty = got.find_first_not_of('\0') == std::string_view::npos;
  if (!is_empty && got != magic.substr(0, got.size())) {
    throw ConfigError(path, "magic", fmt::format("other bytes"), std::string(magic));
  }
  if (is_empty || bytes.size() < kHeaderBytes) return std::nullopt;
  EventFileHeader header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

class Records {
 public:
  Records(const std::string& path, std::string_view bytes, std::int64_t claimed)
      : path_(path), bytes_(bytes.substr(kHeaderBytes)), claimed_(claimed) {
    if (claimed < 0) throw ConfigError(path, "claimed", std::to_string(claimed), "at least 0");
  }

  RankEvents& read_into(RankEvents& result) {
    const auto room = static_cast<std::int64_t>(bytes_.size() / sizeof(EventRecord));
    const std::int64_t held = std::min(claimed_, std::min(room, kMostRecords));
    std::int64_t unfinished = 0;
    for (std::int64_t i = 0; i < held; ++i) {
      const EventRecord record = at(i);
      if (record.written == 0) {
        ++unfinished;
      } else if (record.kind == static_cast<std::uint32_t>(EventKind::Work)) {
        result.work.push_back(work_of(record));
      } else {
        result.events.push_back(event_of(i, record));
      }
    }
    sort_by_time(result.events);
    if (held < claimed_ && !result.events.empty()) {
      result.complete_until_ns = result.events.back().start_ns;
    }
    const std::int64_t lost = claimed_ - held + unfinished;
    if (lost > 0) {
      result.faults.push_back(fmt::format("{} of {} events are not in its file", lost, claimed_));
    }
    return result;
  }

 private:
  EventRecord at(std::int64_t index) const {
    EventRecord record{};
    std::memcpy(&record, bytes_.data() + static_cast<std::size_t>(index) * sizeof record,
                sizeof record);
    return record;
  }

  [[noreturn]] void fail(std::int64_t index, const char* field, std::int64_t got,
                         const char* expected) const {
    throw ConfigError(path_, fmt::format("events[{}].{}", index, field), std::to_string(got),
                      expected);
  }

  static Work work_of(const EventRecord& record) {
    return {record.start_ns,
            text_in(record.name) + text_in(record.detail),
            static_cast<int>(record.thread),
            record.count,
            record.bytes,
            record.object};
  }

  Event event_of(std::int64_t index, const EventRecord& record) const {
    if (record.kind > static_cast<std::uint32_t>(EventKind::OptimizerStep)) {
      fail(index, "kind", record.kind, "0 to 3");
    }
    if (record.start_ns < 0) fail(index, "start_ns", record.start_ns, "at least 0");
    if (record.end_ns != 0 && record.end_ns < record.start_ns) {
      fail(index, "end_ns", record.end_ns, "0, or not before start_ns");
    }
    if (record.bytes < -1) fail(index, "bytes", record.bytes, "at least -1");
    Event event;
    event.kind = static_cast<EventKind>(record.kind);
    event.start_ns = record.start_ns;
    event.end_ns = record.end_ns == 0 ? record.start_ns : record.end_ns;
    if (event.kind == EventKind::Collective && record.count > 0) {
      event.issued_ns = record.start_ns + record.count;
    }
    event.name = text_in(record.name);
    event.bytes = record.bytes;
    const bool is_backward = event.kind == EventKind::Backward;
    (is_backward ? event.added_bytes : event.object) = record.object;
    event.thread = record.thread;
    event.detail = is_backward ? std::to_string(record.count) : text_in(record.detail);
    event.is_captured = event.detail == kNcclCaptured;
    return event;
  }

  const std::string& path_;
  std::string_view bytes_;
  std::int64_t claimed_;
};

std::vector<RankEvents> read_files(const std::string& directory, std::string_view prefix) {
  std::vector<RankEvents> processes;
  for (const std::string& path : files_with(directory, prefix, kEventFileSuffix)) {
    processes.push_back(read_events(path));
  }
  return processes;
}

std::string first_line_of(const std::string& path) {
  const std::string text = whole_file(path);
  return text.substr(0, text.find('\n'));
}

std::string gpus_of_paper_in(const std::string& directory) {
  const fs::path path = fs::path(directory) / kPaperFile;
  return fs::exists(path) ? first_line_of(path.string()) : "";
}

// What the process's largest group says, or else its environment.
JobPlace place_of(const EventFileHeader& header) {
  const bool has_events = header.claimed > 0;
  if (header.world_size > 0) return {header.pid, header.rank, header.world_size, has_events};
  return {header.pid, header.environment_rank, header.environment_world_size, has_events};
}

Known<std::int64_t> tensor_peak_of(const EventFileHeader& header) {
  switch (header.tensor_count) {
    case TensorCount::Counted:
      return header.tensor_peak_bytes;
    case TensorCount::OtherAllocator:
      return Unknown{"the job has an allocator of its own"};
    case TensorCount::OtherThread:
      return Unknown{"the job trains on another thread than the one that imported torch"};
    default:
      return Unknown{kNotCounted};
  }
}

// Returns the headers of the files that can be read by now.
std::vector<EventFileHeader> headers_so_far(const std::string& directory) {
  std::vector<EventFileHeader> headers;
  for (const std::string& path : files_with(directory, kEventFilePrefix, kEventFileSuffix)) {
    std::ifstream file(path, std::ios::binary);
    EventFileHeader header{};
    if (file.read(reinterpret_cast<char*>(&header), sizeof header) &&
        std::memcmp(header.magic, kEventFileMagic, kMagicBytes) == 0) {
      headers.push_back(header);
    }
  }
  return headers;
}

// Drops the events after one of a process's files was full. Its other files would then tell half of
// the truth: forwards whose collectives were not recorded.
void drop_incomplete_end(RankEvents& process) {
  std::erase_if(process.events,
                [&](const Event& event) { return event.start_ns > process.complete_until_ns; });
}

// Adds the faults of a process that only the hook saw.
void add_unreached(const RankEvents& process, std::vector<std::string>& faults) {
  if (!process.events.empty()) {
    faults.push_back(fmt::format(
        "process {}: the preloaded library did not reach it, its collectives are not known",
        process.pid));
  }
  faults.insert(faults.end(), process.faults.begin(), process.faults.end());
}

}  // namespace

RankEvents read_events(const std::string& path) {
  const std::string bytes = whole_file(path);
  RankEvents result;
  const std::optional<EventFileHeader> header = header_of(path, bytes);
  if (!header) {
    result.faults.push_back(fmt::format("{} ends before its first event", path));
    return result;
  }
  const JobPlace place = place_of(*header);
  result.rank = place.rank;
  result.world_size = place.world_size;
  result.pid = place.pid;
  if (header->tensor_peak_bytes < 0) {
    throw ConfigError(path, "tensor_peak_bytes", std::to_string(header->tensor_peak_bytes),
                      "at least 0");
  }
  result.peak.bytes = tensor_peak_of(*header);
  if (*header->fault != '\0') result.faults.push_back(text_in(header->fault));
  return Records(path, bytes, header->claimed).read_into(result);
}

WatchedFolder read_folder(const std::string& directory) {
  WatchedFolder folder;
  folder.reached = fs::exists(fs::path(directory) / kReachedFile);
  folder.faults = faults_so_far(directory);
  const std::string gpus = gpus_of_paper_in(directory);
  // First, so that where the job still runs, the operations that made these calls are read, too.
  std::vector<RankEvents> nccl = read_files(directory, kNcclFilePrefix);
  std::vector<RankEvents> processes = read_files(directory, kEventFilePrefix);
  folder.torch_processes = static_cast<int>(processes.size());
  add_nccl_calls(std::move(nccl), processes);
  const std::size_t reached = processes.size();
  add_hook_events(directory, processes);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    RankEvents& process = processes[i];
    drop_incomplete_end(process);
    if (i >= reached) {
      add_unreached(process, folder.faults);
    } else if (!process.events.empty() || !process.faults.empty()) {
      assign_roles(process);
      process.gpus_of_paper = gpus;
      folder.ranks.push_back(std::move(process));
    }
  }
  std::ranges::sort(folder.ranks, {},
                    [](const RankEvents& each) { return std::tie(each.rank, each.pid); });
  return folder;
}

std::string why_nothing_was_seen(const WatchedFolder& folder) {
  if (!folder.ranks.empty()) return "";
  if (!folder.reached) {
    return "LD_PRELOAD reached none of its processes: its launcher clears the environment, or it "
           "is linked statically";
  }
  if (folder.torch_processes == 0) {
    return "no process that LD_PRELOAD reached used libtorch_cpu.so: a launcher may have taken "
           "LD_PRELOAD away, or torch is linked statically";
  }
  return "torch was loaded, but no model wrapped, nothing communicated and no optimizer stepped";
}

bool is_watched_folder(const std::string& directory) {
  std::error_code ignored;
  return fs::is_regular_file(fs::path(directory) / kReachedFile, ignored);
}

std::int64_t optimizer_steps_so_far(const std::string& directory) {
  std::int64_t most = 0;
  for (const EventFileHeader& header : headers_so_far(directory)) {
    most = std::max(most, header.optimizer_steps);
  }
  return most;
}

std::int64_t tensor_peak_so_far(const std::string& directory) {
  std::int64_t most = 0;
  for (const EventFileHeader& header : headers_so_far(directory)) {
    most = std::max(most, tensor_peak_of(header) ? header.tensor_peak_bytes : 0);
  }
  return most;
}

std::vector<JobPlace> places_so_far(const std::string& directory) {
  std::vector<JobPlace> places;
  for (const EventFileHeader& header : headers_so_far(directory))
    places.push_back(place_of(header));
  return places;
}

std::vector<std::string> faults_so_far(const std::string& directory) {
  std::vector<std::string> faults;
  for (const std::string& path : files_with(directory, "", kFaultSuffix)) {
    if (std::string fault = first_line_of(path); !fault.empty()) faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace gradsync::watch
