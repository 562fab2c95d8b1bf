#include "harness/summary/race.h"

#include <algorithm>
#include <array>

#include "harness/base/grouped.h"
#include "harness/results/result_fields.h"
#include "harness/summary/build_result.h"
#include "harness/summary/comparison.h"
#include "harness/summary/pareto_front.h"

namespace gradsync::summary {

using results::CellResult;
using results::Status;

constexpr auto names_of(const Standing*) {
  return std::to_array<std::pair<Standing, const char*>>({{Standing::Racing, "racing"},
                                                          {Standing::TooLarge, "too_large"},
                                                          {Standing::OutOfMemory, "oom"},
                                                          {Standing::Failed, "failed"},
                                                          {Standing::Untimed, "untimed"},
                                                          {Standing::Slower, "slower"},
                                                          {Standing::Close, "close"},
                                                          {Standing::Fastest, "fastest"}});
}

GRADSYNC_FIELDS_OF(Contender, part, cell, predicted_peak_bytes, standing, reason, launches,
                   peak_allocated_bytes, step_s, vs_fastest)

constexpr auto fields_of(const Race*) {
  return std::tuple{constant("schema", kFastestSchema),
                    GRADSYNC_FIELDS(Race, plan, launches, contenders, exit_status)};
}

namespace {

bool races(const Contender* one) {
  return one->standing == Standing::Racing;
}

// Returns the ways of one work that race and have a time.
std::vector<Contender*> timed(const std::vector<Contender*>& work) {
  std::vector<Contender*> list;
  std::ranges::copy_if(work, std::back_inserter(list),
                       [](const Contender* one) { return races(one) && one->step_s; });
  return list;
}

Contender* leader_of(const std::vector<Contender*>& work) {
  const auto list = timed(work);
  const auto least =
      std::ranges::min_element(list, {}, [](const Contender* one) { return *one->step_s; });
  return least == list.end() ? nullptr : *least;
}

// What the trials say of one way, whether it stays or not.
void take_up(Contender& one, const CellResult& cell) {
  one.launches = cell.launches;
  if (cell.peak_allocated_bytes) one.peak_allocated_bytes = *cell.peak_allocated_bytes;
  one.step_s = cell.is_timed() ? std::optional(cell.step_s->mean) : std::nullopt;
  if (!one.step_s) {
    one.vs_fastest.reset();
    one.reason = cell.step_s.why_not();
  }
  if (cell.status == Status::Ok) return;
  one.standing = cell.status == Status::Oom ? Standing::OutOfMemory : Standing::Failed;
  one.reason = cell.reason;
}

bool is_behind(const results::Ratio& ratio, std::size_t launches) {
  if (ratio.ci95) return ratio.ci95->lo > 1;
  return ratio.ratio > (launches == 1 ? kMostAfterOne : kMostAfterTwo);
}

void compare(const std::vector<Contender*>& work, const std::vector<CellGroup>& groups) {
  const Contender* leader = leader_of(work);
  if (leader == nullptr) return;
  const auto others = static_cast<double>(std::max<std::size_t>(1, work.size() - 1));
  const double level = 1 - (1 - stats::kUsualLevel) / others;
  const CellGroup* first = find_group(groups, leader->part, leader->cell);
  for (Contender* one : timed(work)) {
    const auto ratio = compare_steps(*find_group(groups, one->part, one->cell), *first, level);
    if (!ratio) continue;
    one->vs_fastest = *ratio;
    if (one != leader && is_behind(*ratio, ratio->launches)) one->standing = Standing::Slower;
  }
}

}  // namespace

void to_json(nlohmann::json& out, const Race& race) {
  out = write_fields(race);
}

std::vector<std::vector<Contender*>> works_of(std::vector<Contender>& contenders) {
  const auto work = [](const Contender& one) {
    return std::pair(one.part, without_levers(one.cell).written());
  };
  return grouped(contenders, work);
}

void judge(Race& race, const results::Context& context, const nlohmann::json& plan,
           const std::vector<results::TrialRecord>& trials) {
  const auto groups = group_by_cell(plan, trials, {});
  const results::Result result = build_result(context, plan, trials);
  for (Contender& one : race.contenders) {
    const auto cell = std::ranges::find_if(result.cells, [&](const CellResult& found) {
      return found.part == one.part && found.cell == one.cell;
    });
    if (races(&one) && cell != result.cells.end()) take_up(one, *cell);
  }
  for (const auto& work : works_of(race.contenders)) compare(work, groups);
}

void end_race(Race& race) {
  for (const auto& work : works_of(race.contenders)) {
    const Contender* leader = leader_of(work);
    for (Contender* one : work) {
      if (!races(one)) continue;
      one->standing =
          one == leader ? Standing::Fastest : (one->step_s ? Standing::Close : Standing::Untimed);
    }
  }
}

std::vector<const Contender*> starters(Race& race, const std::string& part, bool is_first) {
  std::vector<const Contender*> all;
  for (const auto& work : works_of(race.contenders)) {
    if (work.front()->part != part) continue;
    if (is_first || std::ranges::count_if(work, races) > 1) {
      std::ranges::copy_if(work, std::back_inserter(all), races);
    }
  }
  return all;
}

}  // namespace gradsync::summary
