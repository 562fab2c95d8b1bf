#include "harness/launch/agents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/messages.h"
#include "harness/base/readable_json.h"

namespace gradsync::launch {
namespace {

using nlohmann::json;

constexpr int kPings = 20;
constexpr double kPingS = 2;

// "commit is "a" there and "b" here; ..." for every place where the two part.
std::string differences(const json& there, const json& here) {
  std::vector<std::string> lines;
  for (const auto& [path, theirs, ours] : json_differences(there, here)) {
    const std::string name = path.empty() ? "identity" : path.substr(1);
    lines.push_back(fmt::format("{} is {} there and {} here", name, theirs, ours));
  }
  return fmt::format("{}", fmt::join(lines, "; "));
}

// Closes the connection of one that says what is no message.
std::vector<AgentMessage> hear(JsonLines& lines, const std::string& from) {
  std::vector<AgentMessage> messages;
  try {
    for (const json& line : lines.read()) messages.push_back(agent_message(line, from));
  } catch (const InternalError&) {
    lines.close();
  }
  return messages;
}

// Returns when the task's clock answered that ping; nothing: it did not in time.
std::optional<std::int64_t> await_clock(JsonLines& lines, const std::string& from, int number,
                                        double timeout_s) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(timeout_s);
  while (lines.is_open()) {
    for (const AgentMessage& message : hear(lines, from)) {
      // An answer to an earlier ping came too late, and is no answer to this one.
      const auto* answer = std::get_if<ClockReading>(&message);
      if (answer != nullptr && answer->number == number) return answer->clock_ns;
    }
    const double left_s = seconds(deadline_ns - steady_clock().now_ns());
    if (left_s <= 0 || !lines.is_open()) break;
    pollfd wait{lines.fd(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(left_s * 1e3) + 1);
  }
  return std::nullopt;
}

void tell(JsonLines& lines, const LeaderMessage& message) {
  lines.send(to_json(message));
}

}  // namespace

Agents::Agents(UniqueFd listener, const TaskPlace& place, const json& identity, double timeout_s,
               double lost_after_s)
    : place_(place),
      identity_(identity),
      lost_after_s_(lost_after_s),
      tasks_(static_cast<std::size_t>(place.tasks)) {
  Newcomers newcomers(std::move(listener));
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(timeout_s);
  const auto missing = [this] {
    std::vector<std::string> numbers;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!tasks_[i]) numbers.push_back(std::to_string(i));
    }
    return numbers;
  };
  while (!missing().empty()) {
    const double left_s = seconds(deadline_ns - steady_clock().now_ns());
    if (left_s <= 0) {
      throw EnvironmentError(
          fmt::format("task {} of {} did not join within {} s", fmt::join(missing(), ", "),
                      place.tasks, timeout_s),
          fmt::format("see that {} starts every task, and that each reaches {}:{}", place.launcher,
                      place.master_address, newcomers.port()));
    }
    if (auto newcomer = newcomers.next(left_s)) admit(std::move(*newcomer));
  }
}

std::string Agents::Task::name() const {
  return fmt::format("task {} on {}", hello.task, hello.host);
}

void Agents::admit(Newcomer newcomer) {
  const Hello& hello = newcomer.hello;
  if (hello.run_id != place_.run_id) {  // that one's mistake, and none of this job
    tell(newcomer.lines, Refusal{fmt::format("the task that listens there belongs to another "
                                             "start of a job, {}, and this one to {}",
                                             place_.run_id, hello.run_id)});
    return;
  }
  auto task =
      std::make_unique<Task>(Task{newcomer.hello, newcomer.reach, std::move(newcomer.lines), {}});
  if (hello.identity != identity_) {
    refuse(*task, fmt::format("{} was not started like task 0: {}", task->name(),
                              differences(hello.identity, identity_)));
  }
  if (task->hello.task < 0 || task->hello.task >= place_.tasks) {
    refuse(*task, fmt::format("{}: expected a number below {}", task->name(), place_.tasks));
  }
  auto& place = tasks_[static_cast<std::size_t>(task->hello.task)];
  if (place) {
    refuse(*task, fmt::format("two tasks call themselves {}, one on {}, one on {}",
                              task->hello.task, place->hello.host, task->hello.host));
  }
  end_when_lost(task->lines.fd(), lost_after_s_);
  task->joined = measure_clock(*task);
  place = std::move(task);
}

// Every task hears why, since all of them end.
void Agents::refuse(Task& newcomer, const std::string& why) {
  tell(newcomer.lines, Refusal{why});
  for (const auto& task : tasks_) {
    if (task) tell(task->lines, Refusal{why});
  }
  throw ConfigError(why);
}

ClockOffset Agents::measure_clock(Task& task) {
  std::vector<Ping> pings;
  for (int number = 0; number < kPings; ++number) {
    Ping ping;
    ping.sent_ns = steady_clock().now_ns();
    tell(task.lines, AskClock{number});
    const auto answered_ns = await_clock(task.lines, task.name(), number, kPingS);
    ping.received_ns = steady_clock().now_ns();
    if (!answered_ns) continue;
    ping.remote_ns = *answered_ns;
    pings.push_back(ping);
  }
  if (pings.empty()) throw CommError(fmt::format("{} does not answer", task.name()), true);
  return offset_of(pings);
}

std::vector<HostClock> Agents::clocks() {
  std::vector<HostClock> nodes;
  for (int node = 0; node < place_.nodes; ++node) {
    Task& task = task_of_rank(node * place_.ranks_per_node);
    HostClock clock;
    try {
      clock = describe_clock(task.joined, measure_clock(task));
    } catch (const CommError& error) {
      clock.reason = error.what();
    }
    clock.node = node;
    clock.host = task.hello.host;
    nodes.push_back(std::move(clock));
  }
  return nodes;
}

int Agents::usable_cpus() const {
  return least_share(&Hello::cpus);
}

int Agents::cores() const {
  return least_share(&Hello::cores);
}

int Agents::least_share(std::vector<int> Hello::*of_task) const {
  struct Machine {
    std::set<int> has;  // tasks beside each other may share some
    int ranks = 0;
  };
  std::map<std::string, Machine> machines;
  for (const auto& task : tasks_) {
    Machine& machine = machines[task->hello.machine];
    const std::vector<int>& has = task->hello.*of_task;
    machine.has.insert(has.begin(), has.end());
    machine.ranks += place_.ranks;
  }
  const int ranks = place_.tasks * place_.ranks;
  int least = std::numeric_limits<int>::max();
  for (const auto& [name, machine] : machines) {
    least = std::min(least, static_cast<int>(machine.has.size()) * ranks / machine.ranks);
  }
  return least;
}

template <typename Number>
std::optional<Number> Agents::least(std::optional<Number> Hello::*of_task) const {
  std::optional<Number> least;
  for (const auto& task : tasks_) {
    const std::optional<Number>& value = task->hello.*of_task;
    if (value && (!least || *value < *least)) least = value;
  }
  return least;
}

std::optional<std::int64_t> Agents::least_memory_available_bytes() const {
  return least(&Hello::memory_available_bytes);
}

std::optional<double> Agents::least_cpu_quota() const {
  return least(&Hello::cpu_quota);
}

void Agents::end(int exit_status) {
  for (const auto& task : tasks_) {
    if (task) tell(task->lines, EndOfJob{exit_status});
  }
}

void Agents::wait(double timeout_s) {
  std::vector<pollfd> waits;
  for (const auto& task : tasks_) {
    if (!task->lines.is_open()) continue;
    const short interest = task->lines.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
    waits.push_back({task->lines.fd(), interest, 0});
  }
  ::poll(waits.data(), waits.size(),
         static_cast<int>(std::clamp(timeout_s, 0.0, 3600.0) * 1e3 + 0.999));
  for (const auto& task : tasks_) task->lines.flush();
}

std::string Agents::leader_address() const {
  std::vector<Reach> reaches;
  for (const auto& task : tasks_) reaches.push_back(task->reach);
  return launch::leader_address(reaches);
}

Agents::Task& Agents::task_of_rank(int rank) {
  return *tasks_.at(static_cast<std::size_t>(rank / place_.ranks));
}

RemoteRanks::RemoteRanks(Agents& agents, const SpawnOptions& spawn)
    : agents_(agents), topology_(agents.place_.topology()), group_(agents.groups_++) {
  const auto ranks = static_cast<std::size_t>(world_size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    progress_.push_back(std::make_unique<RankProgress>());
    progress_.back()->trial = -1;
  }
  states_.assign(ranks, 'R');
  running_.assign(ranks, true);
  StartRanks start{group_,    topology_, agents.leader_address(), spawn.threads_per_rank,
                   spawn.pin, {}};
  for (const auto& [name, value] : spawn.environment) start.environment[name] = value;
  for (const auto& task : agents.tasks_) {
    if (!task->lines.is_open()) throw CommError(fmt::format("{} is gone", task->name()));
    tell(task->lines, start);
  }
}

RemoteRanks::~RemoteRanks() {
  // An agent kills and reaps within a second; one that does not answer is lost anyway.
  constexpr double kStopS = 5;
  int asked = 0;
  for (const auto& task : agents_.tasks_) {
    if (!task->lines.is_open()) continue;
    tell(task->lines, StopRanks{group_});
    ++asked;
  }
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(kStopS);
  while (asked > 0 && steady_clock().now_ns() < deadline_ns) {
    agents_.wait(0.1);
    for (const auto& task : agents_.tasks_) {
      const bool was_open = task->lines.is_open();
      for (const AgentMessage& message : hear(task->lines, task->name())) {
        const auto* stopped = std::get_if<Stopped>(&message);
        if (stopped != nullptr && stopped->group == group_) --asked;
      }
      if (was_open && !task->lines.is_open()) --asked;
    }
  }
}

bool RemoteRanks::anything_runs() const {
  return std::find(running_.begin(), running_.end(), true) != running_.end();
}

std::optional<RankEvent> RemoteRanks::next_event(double timeout_s) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + nanoseconds(timeout_s);
  bool time_left = true;
  while (events_.empty() && anything_runs() && time_left) {
    const double left_s = seconds(deadline_ns - steady_clock().now_ns());
    time_left = left_s > 0;
    agents_.wait(left_s);
    for (const auto& task : agents_.tasks_) {
      for (const AgentMessage& message : hear(task->lines, task->name())) take(message);
    }
    note_lost();
  }
  if (events_.empty()) return std::nullopt;
  RankEvent event = std::move(events_.front());
  events_.erase(events_.begin());
  return event;
}

void RemoteRanks::take(const AgentMessage& message) {
  std::visit(Overloaded{[this](const Standings& said) {
                          if (said.group != group_) return;
                          for (const Standing& standing : said.ranks) take(standing);
                        },
                        [this](const Unstartable& said) {
                          if (said.group != group_) return;
                          throw EnvironmentError(said.why, "see that host's limits");
                        },
                        [this](const RankSaid& said) {
                          RankEvent event;
                          event.message = said.message;
                          note(said, std::move(event));
                        },
                        [this](const RankExited& said) {
                          RankEvent event;
                          event.kind = RankEvent::Kind::Exited;
                          event.exit_code = said.exit_code;
                          note(said, std::move(event));
                        },
                        [this](const RankKilled& said) {
                          RankEvent event;
                          event.kind = RankEvent::Kind::Killed;
                          event.signal = said.signal;
                          note(said, std::move(event));
                        },
                        [](const auto&) {}},
             message);
}

template <typename Said>
void RemoteRanks::note(const Said& said, RankEvent event) {
  if (said.group != group_) return;  // a late word of an earlier group
  event.rank = said.rank;
  if (event.kind != RankEvent::Kind::Message) {
    running_.at(static_cast<std::size_t>(said.rank)) = false;
    states_.at(static_cast<std::size_t>(said.rank)) = 0;
  }
  events_.push_back(std::move(event));
}

void RemoteRanks::take(const Standing& standing) {
  const auto rank = static_cast<std::size_t>(standing.rank);
  RankProgress& progress = *progress_.at(rank);
  progress.trial = standing.trial;
  progress.step = standing.step;
  progress.micro_batch = standing.micro_batch;
  progress.activity = static_cast<Activity>(standing.activity);
  progress.collective = standing.collective;
  progress.completed = standing.completed;
  if (standing.age_ns) progress.changed_ns = steady_clock().now_ns() - *standing.age_ns;
  states_.at(rank) = static_cast<char>(standing.state);
}

void RemoteRanks::note_lost() {
  for (int rank = 0; rank < world_size(); ++rank) {
    const Agents::Task& task = agents_.task_of_rank(rank);
    if (task.lines.is_open() || !running(rank)) continue;
    running_.at(static_cast<std::size_t>(rank)) = false;
    RankEvent event;
    event.kind = RankEvent::Kind::Lost;
    event.rank = rank;
    event.lost = fmt::format("lost with {}, which is gone", task.name());
    events_.push_back(std::move(event));
  }
}

void RemoteRanks::send(int rank, const json& message) {
  tell(agents_.task_of_rank(rank).lines, ToRank{rank, message});
}

}  // namespace gradsync::launch
