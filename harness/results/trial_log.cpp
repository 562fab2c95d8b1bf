#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/results/store.h"
#include "harness/results/write_file.h"

namespace gradsync::results {

using nlohmann::json;

namespace {

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

// For a newer version the remedy is another program, not another file.
void refuse_newer(const json& record, std::string_view known, const std::string& where) {
  const json schema = record.is_object() ? record.value("schema", json()) : json();
  if (!schema.is_string()) return;
  const auto family = known.substr(0, known.find('/') + 1);
  const auto& text = schema.get_ref<const std::string&>();
  if (version_of(text, family) <= version_of(known, family)) return;
  throw ConfigError(
      fmt::format("{}: written by a newer gradsync (schema {}, this one reads {}); "
                  "upgrade to read it",
                  where, text, known));
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

// True for what a crash leaves of a line: the beginning of an object, without its end.
bool is_cut_off(std::string_view tail) {
  return !tail.empty() && std::string_view("{\"").substr(0, tail.size()) == tail.substr(0, 2) &&
         !json::accept(tail);
}

std::string where(const std::string& path, std::size_t line) {
  return fmt::format("{}:{}", path, line);
}

}  // namespace

TrialLog::TrialLog(const std::string& directory)
    : lock_(directory), path_(directory + "/" + kTrialsFile), fd_(-1), size_(0) {
  read_trials(directory);  // refuses to add to what is not ours
  const std::string text = read_text(path_);
  const Lines lines = split(text);
  size_ = static_cast<std::int64_t>(text.size());
  const bool lacks_newline = !lines.tail.empty() && !is_cut_off(lines.tail);
  if (is_cut_off(lines.tail)) size_ -= static_cast<std::int64_t>(lines.tail.size());

  fd_ = ::openat(lock_.descriptor(), kTrialsFile, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_write(path_, "opened", errno);
  int error = 0;
  if (::ftruncate(fd_, size_) != 0 || ::lseek(fd_, 0, SEEK_END) < 0) error = errno;
  if (error == 0 && lacks_newline) error = write_all(fd_, "\n");
  if (error != 0) {
    ::close(fd_);
    fail_write(path_, "opened", error);
  }
  if (lacks_newline) ++size_;
}

TrialLog::~TrialLog() {
  ::close(fd_);
}

void TrialLog::append(const TrialRecord& trial) {
  // A reason may quote bytes of a broken peer: they must not make the record unwritable.
  const std::string line = json(trial).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  int error = write_all(fd_, line);
  if (error == 0 && ::fdatasync(fd_) != 0) error = errno;
  if (error == 0) {
    size_ += static_cast<std::int64_t>(line.size());
    return;
  }
  // Best effort: should this fail too, the reader drops the part of a line.
  if (::ftruncate(fd_, size_) == 0) ::lseek(fd_, size_, SEEK_SET);
  fail_write(path_, "written", error);
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
  std::vector<TrialRecord> trials;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < lines.whole.size(); ++i) {
    TrialRecord trial = parse_line(lines.whole[i], where(path, i + 1));
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

StoredResult read_result(const std::string& directory) {
  const std::string path = directory + "/" + kResultFile;
  const json result = read_json_file(path);
  refuse_newer(result, kResultSchema, path);
  JsonFields fields(result, path);
  if (fields.string("schema") != kResultSchema) fields.fail("schema", kResultSchema);
  for (const char* name : {"context", "plan"}) {
    if (!fields.raw(name, true).is_object()) fields.fail(name, "an object");
  }
  StoredResult stored{Context(result.at("context")), result.at("plan"), std::nullopt};
  const json& status = fields.raw("exit_status", false);
  if (status.is_number_integer()) stored.exit_status = status.get<int>();
  return stored;
}

}  // namespace gradsync::results
