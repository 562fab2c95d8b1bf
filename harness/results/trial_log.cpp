#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/in_parallel.h"
#include "harness/base/json_fields.h"
#include "harness/results/store.h"
#include "harness/results/timelines.h"
#include "harness/results/write_file.h"

namespace gradsync::results {

using nlohmann::json;

namespace {

// The fields of result.json that are read first.
struct ResultHead {
  std::map<std::string, json> context;
  std::map<std::string, json> plan;
  std::optional<int> exit_status;
};

constexpr auto fields_of(const ResultHead*) {
  return std::tuple{constant("schema", kResultSchema), GRADSYNC_FIELDS(ResultHead, context, plan),
                    field("exit_status", &ResultHead::exit_status).later()};
}

// trials.jsonl taken apart: whole lines, and what follows the last newline.
struct Lines {
  std::vector<std::string_view> whole;
  std::string_view tail;
};

Lines split(std::string_view text) {
  Lines lines;
  for (auto end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    lines.whole.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  lines.tail = text;
  return lines;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file && errno != ENOENT) {
    throw ConfigError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The 7 of "gradsync.trial/7"; 0 for another family or no number.
int version_of(std::string_view schema, std::string_view family) {
  int version = 0;
  if (!schema.starts_with(family)) return 0;
  std::from_chars(schema.data() + family.size(), schema.data() + schema.size(), version);
  return version;
}

// What every file of a run has, whatever else; null: it has none.
struct Versioned {
  json schema;
};

constexpr auto fields_of(const Versioned*) {
  return std::tuple{field("schema", &Versioned::schema).later()};
}

// For a newer version the remedy is another program, not another file.
void refuse_newer(const json& record, std::string_view known, const std::string& where) {
  if (!record.is_object()) return;
  const json schema = read_fields<Versioned>(record, where).schema;
  if (!schema.is_string()) return;
  const auto family = known.substr(0, known.find('/') + 1);
  const auto& text = schema.get_ref<const std::string&>();
  if (version_of(text, family) <= version_of(known, family)) return;
  throw ConfigError(
      fmt::format("{}: written by a newer gradsync (schema {}, this one reads {}); "
                  "upgrade to read it",
                  where, text, known));
}

// For fewer trials another thread is not worth its start.
constexpr std::size_t kLeastPart = 64;

std::string where(const std::string& path, std::size_t line) {
  return fmt::format("{}:{}", path, line);
}

TrialRecord parse_line(std::string_view line, const std::string& where) {
  const std::string no_record = where + ": not a trial record";
  try {
    const json record = parse_json(line);
    refuse_newer(record, kTrialSchema, where);
    return trial_from(record, no_record);
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format("{}: {}", no_record, error.what()));
  }
}

std::vector<TrialRecord> parse_lines(const std::vector<std::string_view>& lines,
                                     const std::string& path) {
  std::vector<TrialRecord> trials(lines.size());
  in_parallel(lines.size(), kLeastPart, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) trials[i] = parse_line(lines[i], where(path, i + 1));
  });
  return trials;
}

// One trial for each key, where the first of them stood: the last of them.
std::vector<TrialRecord> without_replaced(std::vector<TrialRecord> all) {
  std::vector<TrialRecord> trials;
  std::unordered_map<std::string, std::size_t> places;
  for (TrialRecord& trial : all) {
    const auto key = trial_key(trial.part, trial.cell, trial.launch, trial.round);
    const auto [place, is_new] = places.try_emplace(key, trials.size());
    if (is_new) {
      trials.push_back(std::move(trial));
    } else {
      trials[place->second] = std::move(trial);
    }
  }
  return trials;
}

// True for what a crash leaves of a line: the beginning of an object, without its end.
bool is_cut_off(std::string_view tail) {
  return !tail.empty() && std::string_view("{\"").substr(0, tail.size()) == tail.substr(0, 2) &&
         !json::accept(tail);
}

std::optional<FilePart> part_at(std::int64_t offset, const std::string& text) {
  if (text.empty()) return std::nullopt;
  return FilePart{offset, static_cast<std::int64_t>(text.size())};
}

// Where the timelines of these trials end; what is behind belongs to none.
std::int64_t end_of_timelines(const std::vector<TrialRecord>& trials) {
  std::int64_t end = 0;
  for (const TrialRecord& trial : trials) {
    for (const auto& part : {trial.timelines_at, trial.memory_timeline_at}) {
      if (part) end = std::max(end, part->offset + part->bytes);
    }
  }
  return end;
}

// Returns a warning about trials whose timelines were not kept; "" if all were.
std::string read_timelines(const std::string& directory, std::vector<TrialRecord>& trials) {
  const TimelinesFile file(directory);
  std::atomic<std::size_t> missing = 0;
  in_parallel(trials.size(), kLeastPart, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (trials[i].timelines_at && !file.read_into(trials[i])) ++missing;
    }
  });
  if (missing == 0) return "";
  return fmt::format(
      "{}/{}: the timelines of {} of {} trials are not there: what is made of them "
      "is left out",
      directory, kTimelinesFile, missing.load(), trials.size());
}

}  // namespace

TrialLog::TrialLog(const std::string& directory) : lock_(directory) {
  const std::string path = directory + "/" + kTrialsFile;
  const std::vector<TrialRecord> trials = read_trials(directory);  // refuses what is not ours
  const std::string text = read_text(path);
  const std::string_view tail = split(text).tail;
  const auto size = static_cast<std::int64_t>(text.size() - (is_cut_off(tail) ? tail.size() : 0));
  trials_.emplace(lock_.descriptor(), kTrialsFile, path, size);
  if (!tail.empty() && !is_cut_off(tail)) trials_->append("\n");
  timelines_.emplace(lock_.descriptor(), kTimelinesFile, directory + "/" + kTimelinesFile,
                     end_of_timelines(trials));
}

TrialRecord TrialLog::append(TrialRecord trial) {
  const std::int64_t before = timelines_->size();
  const std::string steps = timelines_line(trial);
  const std::string memory = memory_timeline_line(trial);
  trial.timelines_at = part_at(before, steps);
  trial.memory_timeline_at = part_at(before + static_cast<std::int64_t>(steps.size()), memory);
  if (!steps.empty() || !memory.empty()) timelines_->append(steps + memory);
  try {
    // A reason may quote bytes of a broken peer: they must not make the record unwritable.
    const json line = without_timelines(trial);
    trials_->append(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  } catch (const ResultsError&) {
    timelines_->truncate_to(before);
    throw;
  }
  for (RankRecord& rank : trial.ranks) rank.memory_timeline.clear();
  return trial;
}

std::vector<TrialRecord> read_trials(const std::string& directory, std::string* warning) {
  if (warning != nullptr) warning->clear();
  const std::string path = directory + "/" + kTrialsFile;
  const std::string text = read_text(path);
  Lines lines = split(text);
  if (is_cut_off(lines.tail)) {
    if (warning != nullptr) {
      *warning =
          fmt::format("{}: the last line is cut off and was left out (a run was interrupted)",
                      where(path, lines.whole.size() + 1));
    }
  } else if (!lines.tail.empty()) {
    lines.whole.push_back(lines.tail);
  }
  std::vector<TrialRecord> trials = without_replaced(parse_lines(lines.whole, path));
  const std::string missing = read_timelines(directory, trials);
  if (warning != nullptr && !missing.empty()) *warning += (warning->empty() ? "" : "; ") + missing;
  return trials;
}

StoredResult read_result(const std::string& directory) {
  const std::string path = directory + "/" + kResultFile;
  const json result = read_json_file(path);
  refuse_newer(result, kResultSchema, path);
  const auto head = read_fields<ResultHead>(result, path);
  return {Context(head.context), head.plan, head.exit_status};
}

}  // namespace gradsync::results
