#include "harness/arms/arm_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/coordinate/watched_group.h"

namespace gradsync::arms {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string event_of(const json& message) {
  const auto event = message.find("event");
  return event != message.end() && event->is_string() ? event->get<std::string>() : "";
}

json failed(const std::string& reason) {
  return {{"event", "failed"}, {"status", "failed"}, {"reason", reason}};
}

ArmLaunch read_launch(const json& in, const std::string& program, std::size_t index) {
  JsonFields fields(in, program, fmt::format("launches[{}].", index));
  ArmLaunch launch;
  launch.part = fields.string("part");
  launch.topology = fields.string("topology");
  launch.scale = static_cast<int>(fields.positive_int("scale"));
  const json& cells = fields.raw("cells", true);
  if (!cells.is_array() || cells.empty()) fields.fail("cells", "a list with at least one cell");
  launch.cells = cells.get<std::vector<json>>();
  return launch;
}

std::vector<std::string> command_of(const std::string& program,
                                    const std::vector<std::string>& arguments) {
  std::vector<std::string> command{program, "arm"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace

std::string program_of(const std::string& build) {
  const std::string program = fs::is_directory(build) ? build + "/gradsync" : build;
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
    take_hello(*hello);
  } catch (...) {
    end();
    throw;
  }
}

ArmProcess::~ArmProcess() {
  end();
}

void ArmProcess::take_hello(const json& hello) {
  JsonFields fields(hello, program_);
  if (fields.string("schema") != kArmSchema) {
    fields.fail("schema", fmt::format("\"{}\": both builds must speak it", kArmSchema));
  }
  build_info_ = fields.raw("build", true);
  if (!build_info_.is_object()) fields.fail("build", "an object");
  const json& launches = fields.raw("launches", true);
  if (!launches.is_array() || launches.empty()) fields.fail("launches", "a list of launches");
  for (std::size_t i = 0; i < launches.size(); ++i) {
    launches_.push_back(read_launch(launches[i], program_, i));
  }
}

std::optional<ArmFailure> ArmProcess::open(std::size_t launch) {
  GRADSYNC_CHECK(launch, <, launches_.size());
  open_launch_.reset();
  const json answer = ask({{"open", launch}}, "opened");
  if (event_of(answer) == "opened") {
    open_launch_ = launch;
    return std::nullopt;
  }
  return ArmFailure{answer.at("status").get<std::string>(), answer.at("reason").get<std::string>()};
}

results::TrialRecord ArmProcess::turn(const ArmTurn& turn) {
  GRADSYNC_CHECK(is_open(), ==, true);
  const ArmLaunch& launch = launches_[*open_launch_];
  GRADSYNC_CHECK(turn.cell, <, launch.cells.size());
  const json answer = ask(
      {{"turn", {{"cell", turn.cell}, {"warmup_steps", turn.warmup_steps}, {"steps", turn.steps}}}},
      "trial");
  const results::TrialRecord record =
      event_of(answer) == "trial" ? trial_from(answer) : failed_trial(launch, turn.cell, answer);
  const bool ranks_are_up =
      record.status == results::Status::Ok || record.status == results::Status::Invalid;
  if (!ranks_are_up) open_launch_.reset();
  return record;
}

void ArmProcess::close() {
  if (!open_launch_) return;
  open_launch_.reset();
  ask({{"close", true}}, "closed");
}

results::TrialRecord ArmProcess::trial_from(const json& answer) const {
  try {
    return results::trial_from(answer.at("trial"), program_ + ": its record of a turn");
  } catch (const json::exception& error) {
    throw ConfigError(
        fmt::format("{}: its record of a turn cannot be read: {}", program_, error.what()));
  }
}

results::TrialRecord ArmProcess::failed_trial(const ArmLaunch& launch, std::size_t cell,
                                              const json& answer) {
  results::TrialRecord record;
  record.part = launch.part;
  record.cell = launch.cells[cell];
  record.reason = answer.at("reason").get<std::string>();
  try {
    record.status = results::status_from_string(answer.at("status").get<std::string>());
  } catch (const std::invalid_argument&) {
    record.status = results::Status::Failed;  // "config", "unfit", "internal"
  }
  return record;
}

json ArmProcess::ask(const json& request, const std::string& expected) {
  if (!alive()) return failed(death_);
  child_.lines().send(request);
  const auto answer = receive(deadlines_.answer_s);
  if (!answer) {
    open_launch_.reset();
    return failed(death_);
  }
  const bool is_failure = event_of(*answer) == "failed" &&
                          answer->value("status", json()).is_string() &&
                          answer->value("reason", json()).is_string();
  if (!is_failure && event_of(*answer) != expected) {
    throw ConfigError(fmt::format("{}: got {} in answer to {}, expected event \"{}\"", program_,
                                  answer->dump().substr(0, 200), request.dump(), expected));
  }
  return *answer;
}

std::optional<json> ArmProcess::receive(double silence_s) {
  std::int64_t heard_ns = steady_clock().now_ns();
  for (;;) {
    while (!unread_.empty()) {
      json message = std::move(unread_.front());
      unread_.pop_front();
      if (event_of(message) != "busy") return message;
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
