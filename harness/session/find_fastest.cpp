#include "harness/session/search_cells.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/log.h"
#include "harness/text/labels.h"

namespace gradsync::session {
namespace {

using summary::Contender;
using summary::Race;
using summary::Standing;

Contender entered(const Session& session, const plan::Part& part, const plan::Cell& cell) {
  Contender one;
  one.part = part.name;
  one.cell = nlohmann::json(cell);
  one.predicted_peak_bytes = session.predicted_peak(part, cell);
  if (cell.memory_budget_bytes == 0 || !one.predicted_peak_bytes ||
      *one.predicted_peak_bytes <= cell.memory_budget_bytes) {
    return one;
  }
  one.standing = Standing::TooLarge;
  one.reason = fmt::format("by the formula it holds {}, of a budget of {}",
                           text::bytes_text(*one.predicted_peak_bytes),
                           text::bytes_text(cell.memory_budget_bytes));
  return one;
}

void run_part(Session& session, const plan::Plan& plan, const plan::Part& part, Race& race) {
  for (int launch = 0; launch < part.launches; ++launch) {
    std::vector<plan::Cell> cells;
    for (const Contender* one : summary::starters(race, part.name, launch == 0)) {
      cells.push_back(plan::cell_from_json(one->cell.written(), part.name));
    }
    if (cells.empty()) return;
    log::info(fmt::format("launch {} of at most {}: {} of {} ways race", launch + 1, part.launches,
                          cells.size(), part.cells.size()));
    session.run_some(part, cells, launch);
    summary::judge(race, session.context(), plan.source, session.trials());
  }
}

}  // namespace

void find_fastest(Session& session, const plan::Plan& plan, Race& race) {
  race.plan = plan.name;
  for (const plan::Part& part : plan.parts) {
    race.launches = std::max(race.launches, part.launches);
    for (const plan::Cell& cell : part.cells) {
      race.contenders.push_back(entered(session, part, cell));
    }
  }
  for (const plan::Part& part : plan.parts) run_part(session, plan, part, race);
  summary::end_race(race);
}

ExitStatus exit_status_of(Race& race) {
  const auto is = [](Standing standing) {
    return [standing](const Contender* one) { return one->standing == standing; };
  };
  ExitStatus status = ExitStatus::Ok;
  for (const auto& work : summary::works_of(race.contenders)) {
    if (std::ranges::any_of(work, is(Standing::Failed))) return ExitStatus::Failed;
    if (std::ranges::any_of(work, is(Standing::Fastest))) continue;
    if (std::ranges::any_of(work, is(Standing::Untimed))) return ExitStatus::Failed;
    status = ExitStatus::Unfit;
  }
  return status;
}

}  // namespace gradsync::session
