#include "harness/watch/judge/steps/usual_work.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

namespace gradsync::watch {
namespace {

using Value = std::optional<std::int64_t>;

struct StepWork {
  std::map<std::string, Work> operators;
  std::map<int, Work> stacks;
};

void add(Work& sum, const Work& work) {
  sum.times += work.times;
  sum.bytes += work.bytes;
  sum.flops += work.flops;
}

// By step, the work that was written before it ended, and after the one before ended.
std::vector<StepWork> work_of(const RankEvents& process, const std::vector<const Step*>& steps) {
  std::vector<StepWork> all(steps.size());
  for (const Work& work : process.work) {
    const auto step = std::ranges::lower_bound(steps, work.written_ns, {}, &Step::end_ns);
    if (step == steps.end() || work.written_ns < (*step)->start_ns) continue;
    StepWork& into = all[static_cast<std::size_t>(step - steps.begin())];
    add(into.operators[work.name], work);
    if (work.stack != 0) add(into.stacks[work.stack], work);
  }
  std::erase_if(all, [](const StepWork& step) { return step.operators.empty(); });
  return all;
}

// What all but a quarter of them have.
template <typename ValueOf>
Value common_value(const std::vector<StepWork>& steps, ValueOf value_of) {
  std::map<std::int64_t, std::size_t> counts;
  for (const StepWork& step : steps) ++counts[value_of(step)];
  const auto most = std::ranges::max_element(
      counts, [](const auto& a, const auto& b) { return a.second < b.second; });
  return 4 * most->second >= 3 * steps.size() ? Value(most->first) : std::nullopt;
}

std::int64_t flops_of(const StepWork& step) {
  std::int64_t flops = 0;
  for (const auto& [name, work] : step.operators) flops += work.flops;
  return flops;
}

gate::OperatorWork common_operator(const std::vector<StepWork>& steps, const std::string& name) {
  const auto value_of = [&](std::int64_t Work::*field) {
    return common_value(steps, [&](const StepWork& step) {
      const auto found = step.operators.find(name);
      return found == step.operators.end() ? 0 : found->second.*field;
    });
  };
  return {value_of(&Work::times), value_of(&Work::bytes)};
}

gate::LineWork& line_in(std::vector<gate::LineWork>& lines, const JobLine& place) {
  const std::string file = std::filesystem::path(place.file).filename().string();
  const auto alike = std::ranges::find_if(lines, [&](const gate::LineWork& line) {
    return line.file == file && line.text == place.text;
  });
  if (alike != lines.end()) return *alike;
  return lines.emplace_back(gate::LineWork{file, place.text, place.line});
}

// The innermost line of a stack has what its operators do. Lines with the same text stand together.
std::vector<gate::LineWork> lines_of(const RankEvents& process, const StepWork& step) {
  std::vector<gate::LineWork> lines;
  for (const auto& [number, work] : step.stacks) {
    const auto stack = process.stacks.find(number);
    if (stack == process.stacks.end()) continue;
    for (const JobLine& place : stack->second) {
      gate::LineWork& line = line_in(lines, place);
      if (&place != &stack->second.front()) continue;
      line.times += work.times;
      line.bytes += work.bytes;
    }
  }
  return lines;
}

std::optional<gate::RankWork> common_work(const RankEvents& process,
                                          const std::vector<const Step*>& among) {
  const std::vector<StepWork> steps = work_of(process, among);
  if (steps.empty()) return std::nullopt;
  gate::RankWork work;
  for (const StepWork& step : steps) {
    for (const auto& [name, ignored] : step.operators) {
      if (work.operators.contains(name)) continue;
      const gate::OperatorWork common = common_operator(steps, name);
      if (common != gate::OperatorWork{}) work.operators[name] = common;
    }
  }
  work.flops = common_value(steps, flops_of);
  work.lines = lines_of(process, steps.back());
  return work;
}

}  // namespace

std::optional<gate::RankWork> last_counted_work(const RankEvents& process, const Steps& steps) {
  for (auto step = steps.steps.rbegin(); step != steps.steps.rend(); ++step) {
    if (auto work = common_work(process, {&*step})) return work;
  }
  return std::nullopt;
}

std::optional<gate::RankWork> usual_work(const RankEvents& process, const UsualStep& usual) {
  std::vector<const Step*> later;
  for (const StepCounts* counts : usual.all) later.push_back(counts->step);
  if (later.size() > 1) later.erase(later.begin());
  return common_work(process, later);
}

}  // namespace gradsync::watch
