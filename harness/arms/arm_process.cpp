#include "harness/arms/arm_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/coordinate/watched_group.h"

namespace gradsync::arms {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

results::TrialRecord failed_trial(const ArmLaunch& launch, std::size_t cell,
                                  const ArmFailure& failure) {
  results::TrialRecord record;
  record.part = launch.part;
  record.cell = launch.cells[cell];
  record.reason = failure.reason;
  try {
    record.status = results::status_from_string(failure.status);
  } catch (const std::invalid_argument&) {
    record.status = results::Status::Failed;  // "config", "unfit", "internal"
  }
  return record;
}

std::vector<std::string> command_of(const std::string& program,
                                    const std::vector<std::string>& arguments) {
  std::vector<std::string> command{program, "arm"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace

std::string program_of(const std::string& build) {
  std::string program = fs::is_directory(build) ? build + "/gradsync" : build;
  if (fs::is_regular_file(program) && ::access(program.c_str(), X_OK) == 0) return program;
  throw ConfigError(fmt::format(
      "{}: expected a build directory with the program gradsync in it, or the program", build));
}

std::vector<std::string> arm_arguments(const session::RunOptions& options, double extra_work) {
  std::vector<std::string> arguments = session::plan_arguments(options);
  if (extra_work > 0) {
    arguments.insert(arguments.end(), {"--extra-work", fmt::format("{}%", 100 * extra_work)});
  }
  return arguments;
}

ArmProcess::ArmProcess(const std::string& build, const std::vector<std::string>& arguments,
                       const std::atomic<bool>* interrupted, const ArmDeadlines& deadlines)
    : program_(program_of(build)),
      interrupted_(interrupted),
      deadlines_(deadlines),
      child_(command_of(program_, arguments)) {
  try {
    const auto hello = receive(deadlines_.hello_s);
    if (!hello) throw ConfigError(death_ + " (expected a build of gradsync that takes turns)");
    hello_ = arm_hello(*hello, program_);
  } catch (...) {
    end();
    throw;
  }
}

ArmProcess::~ArmProcess() {
  end();
}

std::optional<ArmFailure> ArmProcess::open(std::size_t launch) {
  GRADSYNC_CHECK(launch, <, launches().size());
  open_launch_.reset();
  const auto answer = ask<ArmOpened>({.open = launch});
  if (const auto* failure = std::get_if<ArmFailure>(&answer)) return *failure;
  open_launch_ = launch;
  return std::nullopt;
}

results::TrialRecord ArmProcess::turn(const ArmTurn& turn) {
  GRADSYNC_CHECK(is_open(), ==, true);
  const ArmLaunch& launch = launches()[*open_launch_];
  GRADSYNC_CHECK(turn.cell, <, launch.cells.size());
  auto answer = ask<ArmRan>({.turn = turn});
  auto* ran = std::get_if<ArmRan>(&answer);
  results::TrialRecord record = ran != nullptr
                                    ? std::move(ran->trial)
                                    : failed_trial(launch, turn.cell, std::get<ArmFailure>(answer));
  const bool ranks_are_up =
      record.status == results::Status::Ok || record.status == results::Status::Invalid;
  if (!ranks_are_up) open_launch_.reset();
  return record;
}

void ArmProcess::close() {
  if (!open_launch_) return;
  open_launch_.reset();
  ask<ArmClosed>({.close = true});
}

template <typename Expected>
std::variant<Expected, ArmFailure> ArmProcess::ask(const ArmRequest& request) {
  if (!alive()) return ArmFailure{"failed", death_};
  child_.lines().send(to_json(request));
  ArmAnswer answer = next_answer();
  if (auto* failure = std::get_if<ArmFailure>(&answer)) return std::move(*failure);
  if (auto* expected = std::get_if<Expected>(&answer)) return std::move(*expected);
  throw ConfigError(fmt::format("{}: got {} in answer to {}", program_,
                                to_json(answer).dump().substr(0, 200), to_json(request).dump()));
}

ArmAnswer ArmProcess::next_answer() {
  for (;;) {
    const std::optional<json> message = receive(deadlines_.answer_s);
    if (!message) {
      open_launch_.reset();
      return ArmFailure{"failed", death_};
    }
    ArmAnswer answer = arm_answer(*message, program_);
    if (!std::holds_alternative<ArmBusy>(answer)) return answer;
  }
}

std::optional<json> ArmProcess::receive(double silence_s) {
  std::int64_t heard_ns = steady_clock().now_ns();
  for (;;) {
    if (!unread_.empty()) {
      json message = std::move(unread_.front());
      unread_.pop_front();
      return message;
    }
    if (interrupted_ != nullptr && interrupted_->load()) throw coordinate::Interrupted();
    if (!child_.lines().is_open()) {
      end();
      return std::nullopt;
    }
    if (seconds(steady_clock().now_ns() - heard_ns) > silence_s) {
      child_.kill();  // it may be stopped
      end();
      death_ = fmt::format("{} said nothing for {:.0f} s and was ended", program_, silence_s);
      return std::nullopt;
    }
    if (wait_and_read()) heard_ns = steady_clock().now_ns();
  }
}

bool ArmProcess::wait_and_read() {
  constexpr int kLookMs = 100;  // at the interrupt
  const short interest = child_.lines().wants_to_write() ? POLLIN | POLLOUT : POLLIN;
  pollfd wait{child_.lines().fd(), interest, 0};
  if (::poll(&wait, 1, kLookMs) <= 0) return false;
  child_.lines().flush();
  try {
    for (json& message : child_.lines().read()) unread_.push_back(std::move(message));
  } catch (const InternalError& error) {
    throw ConfigError(fmt::format("{}, expected a build of gradsync", error.what()));
  }
  return !unread_.empty();
}

void ArmProcess::end() {
  if (child_.running()) death_ = child_.end(deadlines_.grace_s);
}

}  // namespace gradsync::arms
