#include "harness/watch/hold/held_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "harness/base/child_process.h"
#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/watch/hold/job_processes.h"
#include "harness/watch/read/read_events.h"

namespace gradsync::watch {
namespace {

namespace fs = std::filesystem;

constexpr double kArrivalPollS = 0.1;
constexpr std::int64_t kAhead = 100;  // steps that a job is allowed beyond those it has taken
constexpr double kKernelS = 60;       // as long as it takes it to end a process
constexpr std::size_t kTail = 65536;  // bytes of output in which the last words are looked for

// Returns 0 or an errno.
int spawn(const JobStart& start, pid_t& pid) {
  return Spawn(start.command)
      .environment(launch::environment_with(start.environment))
      .open(STDIN_FILENO, "/dev/null", O_RDONLY)
      .open(STDOUT_FILENO, start.log, O_WRONLY | O_CREAT | O_APPEND)
      .duplicate(STDOUT_FILENO, STDERR_FILENO)
      .in_own_group()
      .start(pid);
}

std::int64_t file_size(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

bool has_letters(const std::string& line) {
  return std::any_of(line.begin(), line.end(),
                     [](unsigned char c) { return std::isalpha(c) != 0; });
}

// The last line that names an error, or else that has words, of what `path` holds from `start` on.
std::string last_words(const std::string& path, std::int64_t start) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(std::max(start, file_size(path) - static_cast<std::int64_t>(kTail)));
  std::string with_words;
  std::string with_error;
  for (std::string line; std::getline(file, line);) {
    if (!has_letters(line)) continue;
    with_words = line;
    if (line.find("Error") != std::string::npos) with_error = line;
  }
  return with_error.empty() ? with_words : with_error;
}

// Adds where the time of a step went; a process of which one is not known has none.
void add_phases(const TakenStep& step, std::map<std::string, std::vector<double>>& phase_s) {
  const StepPhases& phases = step.phases;
  const std::int64_t before_ns = phases.backward_ns + phases.between_ns + phases.optimizer_ns;
  const std::array<std::pair<const char*, std::int64_t>, 4> spent = {{
      {"forward", step.end_ns - step.start_ns - before_ns},
      {"backward", phases.backward_ns},
      {"backward to optimizer", phases.between_ns},
      {"optimizer", phases.optimizer_ns},
  }};
  for (const auto& [phase, spent_ns] : spent) phase_s[phase].push_back(seconds(spent_ns));
}

}  // namespace

HeldJob::HeldJob(const JobStart& start, const JobDeadlines& deadlines, std::function<void()> poll)
    : program_(start.command.at(0)),
      folder_(start.folder),
      log_(start.log),
      log_start_(file_size(start.log)),
      deadlines_(deadlines),
      processes_(start.processes),
      poll_(std::move(poll)),
      turns_(start.folder) {
  const int error = spawn(start, pid_);
  if (error == 0) return;
  pid_ = -1;
  if (error == ENOENT || error == EACCES || error == ENOEXEC) {
    throw ConfigError(fmt::format("{}: {}", program_, std::strerror(error)));
  }
  throw EnvironmentError(fmt::format("{} cannot be started: {}", program_, std::strerror(error)),
                         "check the limits of processes and open files");
}

HeldJob::~HeldJob() {
  end();
}

TakenBlock HeldJob::run(std::int64_t steps) {
  GRADSYNC_CHECK(steps, >=, 1);
  GRADSYNC_CHECK(steps, <=, static_cast<std::int64_t>(kKeptSteps));
  const std::int64_t first = allowed_;
  allowed_ += steps;
  if (!death_.empty()) return failed(death_);
  heard_ns_ = steady_clock().now_ns();
  turns_.allow(allowed_);
  for (;;) {
    const std::uint32_t arrivals = turns_.arrivals();
    if (all_have_arrived()) return taken(first, steps);
    if (poll_) poll_();
    if (has_ended()) return failed(death_);
    if (takes_too_long()) {
      end_because_silent();
      return failed(death_);
    }
    turns_.wait_for_arrival(arrivals, kArrivalPollS);
  }
}

JobEnd HeldJob::finish() {
  heard_ns_ = steady_clock().now_ns();
  while (death_.empty()) {
    const std::uint32_t arrivals = turns_.arrivals();
    std::int64_t most = 0;
    for (const Turns::Taker& taker : turns_.takers()) most = std::max(most, taker.ended);
    allowed_ = std::max(allowed_, most + kAhead);
    turns_.allow(allowed_);
    if (poll_) poll_();
    if (has_ended()) break;
    if (takes_too_long()) {
      end_because_silent();
    } else {
      turns_.wait_for_arrival(arrivals, kArrivalPollS);
    }
  }
  return {ended(), death_, ended_well_};
}

std::int64_t HeldJob::ended() const {
  const std::vector<Turns::Taker> takers = turns_.takers();
  const auto least = std::min_element(
      takers.begin(), takers.end(), [](const auto& a, const auto& b) { return a.ended < b.ended; });
  return least == takers.end() ? 0 : least->ended;
}

// Whether as many processes as the job has ranks are here, and every one at the end of its steps.
bool HeldJob::all_have_arrived() {
  const std::vector<Turns::Taker> takers = turns_.takers();
  if (takers.empty() || ended() < allowed_) return false;
  if (world_size_ == 0) {
    int largest = 1;
    for (const JobPlace& place : places_so_far(folder_)) {
      largest = std::max(largest, place.world_size);
    }
    if (std::ssize(takers) < (processes_ > 0 ? processes_ : largest)) return false;
    world_size_ = largest;
  }
  return true;
}

bool HeldJob::takes_too_long() {
  std::int64_t steps = 0;
  for (const Turns::Taker& taker : turns_.takers()) steps += taker.ended;
  const std::int64_t now_ns = steady_clock().now_ns();
  if (std::exchange(heard_steps_, steps) != steps) heard_ns_ = now_ns;
  return seconds(now_ns - heard_ns_) > deadlines_.step_s;
}

void HeldJob::end_because_silent() {
  end();
  death_ = fmt::format("ended no step for {:.0f} s and was ended", deadlines_.step_s);
}

TakenBlock HeldJob::taken(std::int64_t first, std::int64_t steps) const {
  const std::vector<JobPlace> places = places_so_far(folder_);
  TakenBlock block;
  for (const Turns::Taker& taker : turns_.takers()) {
    TakenSteps process;
    bool is_known = true;
    process.pid = taker.pid;
    for (const JobPlace& place : places) {
      if (place.pid == taker.pid) process.rank = place.rank;
    }
    for (const TakenStep& step : turns_.steps(taker, first, steps)) {
      if (step.start_ns == 0) continue;
      process.step_s.push_back(seconds(step.end_ns - step.start_ns));
      is_known = is_known && step.phases.backward_ns >= 0;
      if (is_known) add_phases(step, process.phase_s);
    }
    if (!is_known) process.phase_s.clear();
    block.processes.push_back(std::move(process));
  }
  std::stable_sort(block.processes.begin(), block.processes.end(),
                   [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return block;
}

TakenBlock HeldJob::failed(const std::string& how) const {
  TakenBlock block;
  block.failure = fmt::format("made {} of {} steps, then {}", ended(), allowed_, how);
  block.ended_well = ended_well_;
  return block;
}

bool HeldJob::has_ended() {
  int status = 0;
  if (pid_ < 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  pid_ = -1;
  kill_processes_of(folder_);
  ended_well_ = status == 0;
  death_ = describe_end(status);
  const std::string words = ended_well_ ? "" : last_words(log_, log_start_);
  if (!words.empty()) death_ += fmt::format(": {} ({})", words, log_);
  return true;
}

// Releases the ranks, then ends the job: a launcher passes SIGTERM on to its ranks, which must not
// be held then.
void HeldJob::end() {
  turns_.free();
  if (pid_ > 0) {
    ::kill(-pid_, SIGTERM);
    if (!wait_for_end(pid_, deadlines_.grace_s)) {
      ::kill(-pid_, SIGKILL);
      wait_for_end(pid_, kKernelS);
    }
    pid_ = -1;
  }
  kill_processes_of(folder_);
}

}  // namespace gradsync::watch
