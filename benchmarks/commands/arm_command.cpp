// gradsync arm: a launcher that keeps its ranks and lets them run a block when a gate says so.
// Their messages: arm_protocol.h.
#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "harness/arms/arm_protocol.h"
#include "harness/arms/arm_wire.h"
#include "harness/base/errors.h"
#include "harness/base/grouped.h"
#include "harness/base/log.h"
#include "harness/base/units.h"
#include "harness/coordinate/resident.h"
#include "harness/plan/cell.h"
#include "harness/session/context.h"
#include "harness/session/interrupt.h"
#include "harness/session/run_options.h"
#include "harness/session/runnable_launches.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;

struct ArmOptions {
  session::RunOptions run;
  std::string extra_work = "0%";
};

// What a request can open: the cells that share ranks, in the plan's order, with a trial for each.
std::vector<plan::Launch> launches_of(const plan::Plan& plan) {
  const auto network = [](const plan::Cell& cell) { return std::pair(cell.topology, cell.scale); };
  std::vector<plan::Launch> launches;
  for (const plan::Part& part : plan.parts) {
    for (const auto& cells : grouped(part.cells, network)) {
      launches.push_back({part.name, cells.front()->topology, 0, cells.front()->scale, {}});
      for (const plan::Cell* cell : cells) launches.back().trials.emplace_back().cell = *cell;
    }
  }
  return launches;
}

arms::ArmHello hello(const std::vector<plan::Launch>& launches) {
  arms::ArmHello said{json(session::build_context()), {}};
  for (const plan::Launch& launch : launches) {
    arms::ArmLaunch& of = said.launches.emplace_back();
    of.part = launch.part;
    of.topology = launch.topology;
    of.scale = launch.scale;
    for (const plan::Trial& trial : launch.trials) of.cells.emplace_back(json(trial.cell));
  }
  return said;
}

const char* status_of(const std::exception& error) {
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return "config";
  return dynamic_cast<const EnvironmentError*>(&error) != nullptr ? "unfit" : "internal";
}

void require_below(std::size_t index, std::size_t count, const std::string& field) {
  if (index < count) return;
  throw ConfigError("request", field, fmt::format("{}", index), fmt::format("less than {}", count));
}

void require_count(int count, int at_least, const std::string& field) {
  if (count >= at_least && count <= plan::kLargestCount) return;
  throw ConfigError("request", field, fmt::format("{}", count),
                    fmt::format("an integer from {} to {}", at_least, plan::kLargestCount));
}

class Arm {
 public:
  Arm(const session::RunOptions& options, const plan::Plan& plan, double extra_work)
      : extra_work_(extra_work),
        launches_(launches_of(plan)),
        runnable_(options, plan, nullptr, nullptr) {}

  // Answers every request, until there are no more.
  void serve() {
    wire_.send(to_json(hello(launches_)));
    while (answer_next()) {
    }
  }

 private:
  // Returns false at the end of the input.
  bool answer_next() {
    arms::ArmAnswer answer;
    try {
      const std::optional<json> request = wire_.next();
      if (!request) return false;
      answer = act_on(arms::arm_request(*request));
    } catch (const coordinate::Interrupted&) {
      throw;
    } catch (const arms::ReaderGone&) {
      throw;
    } catch (const std::exception& error) {
      ranks_.reset();
      answer = arms::ArmFailure{status_of(error), error.what()};
    }
    wire_.send(to_json(answer));
    return true;
  }

  arms::ArmAnswer act_on(const arms::ArmRequest& request) {
    if (request.open) return open(*request.open);
    if (request.turn) return turn(*request.turn);
    return close();
  }

  arms::ArmAnswer open(std::size_t index) {
    require_below(index, launches_.size(), "open");
    ranks_.reset();
    plan::Launch& launch = launches_[index];
    coordinate::RunnableLaunch runnable = runnable_.runnable(launch, launch.trials);
    runnable.spec.extra_work = extra_work_;
    ranks_ =
        std::make_unique<coordinate::ResidentRanks>(std::move(runnable), [this] { wire_.beat(); });
    ++launch.launch;
    open_ = index;
    turns_ = 0;
    turns_of_cell_.assign(launch.trials.size(), 0);
    if (!ranks_->failure()) return arms::ArmOpened{index};
    arms::ArmFailure failure{ranks_->failure()->status, ranks_->failure()->reason};
    ranks_.reset();
    return failure;
  }

  arms::ArmAnswer turn(const arms::ArmTurn& request) {
    if (!ranks_) throw ConfigError("request: got a turn, expected open first: no ranks are up");
    const std::vector<plan::Trial>& cells = launches_[open_].trials;
    require_below(request.cell, cells.size(), "turn.cell");
    require_count(request.warmup_steps, 0, "turn.warmup_steps");
    require_count(request.steps, 1, "turn.steps");
    plan::Trial trial = cells[request.cell];
    trial.warmup_steps = request.warmup_steps;
    trial.steps = request.steps;
    trial.order = turns_++;
    trial.round = turns_of_cell_[request.cell]++;
    arms::ArmRan ran{ranks_->run(trial)};
    if (ranks_->failure()) ranks_.reset();
    return ran;
  }

  arms::ArmAnswer close() {
    ranks_.reset();
    return arms::ArmClosed{};
  }

  double extra_work_;
  arms::ArmWire wire_;
  std::vector<plan::Launch> launches_;  // each with how often it was opened
  session::RunnableLaunches runnable_;
  std::unique_ptr<coordinate::ResidentRanks> ranks_;  // of launches_[open_]; null: none are up
  std::size_t open_ = 0;
  int turns_ = 0;  // since it was opened
  std::vector<int> turns_of_cell_;
};

double read_extra_work(const std::string& text) {
  try {
    return parse_percent(text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("--extra-work: got '{}', expected {}", text, error.what()));
  }
}

ExitStatus serve(const ArmOptions& options) {
  const double extra_work = read_extra_work(options.extra_work);
  const plan::Plan plan = session::checked_plan(options.run);
  session::require_device(plan);
  session::catch_interrupts();
  try {
    Arm(options.run, plan, extra_work).serve();
  } catch (const arms::ReaderGone&) {
    return ExitStatus::Ok;  // the end of its input, seen from the other side
  } catch (const coordinate::Interrupted&) {
    return ExitStatus::Interrupted;
  }
  return ExitStatus::Ok;
}

}  // namespace

void add_arm_command(CLI::App& app, ExitStatus& status) {
  auto options = std::make_shared<ArmOptions>();
  CLI::App* command = app.add_subcommand("arm", "Run blocks of a plan on request")->group("");
  add_plan_options(*command, options->run);
  command->add_option("--extra-work", options->extra_work,
                      "Share of its own step that every rank does in addition (0%)");
  command->callback([options, &status] {
    log::configure(true);
    options->run.takes_turns = true;
    status = serve(*options);
  });
}

}  // namespace gradsync::cli
