#include "harness/fit/replay.h"

#include <fmt/format.h>

#include <sstream>

#include "harness/base/errors.h"
#include "harness/launch/program_output.h"

namespace gradsync::fit {
namespace {

constexpr double kDeadlineS = 300;
constexpr const char* kVariable = "PYTORCH_ALLOC_CONF";
constexpr const char* kEarlierVariable = "PYTORCH_CUDA_ALLOC_CONF";
constexpr int kFirstWithVariable = 9;  // of torch 2

}  // namespace

const std::vector<std::string_view>& settings() {
  static const std::vector<std::string_view> all{"", "expandable_segments:True",
                                                 "max_split_size_mb:512", "max_split_size_mb:128",
                                                 "roundup_power2_divisions:8"};
  return all;
}

std::string settings_variable(const watch::JobTorch& torch) {
  int major = 0;
  int minor = 0;
  char point = '.';
  std::istringstream(torch.version) >> major >> point >> minor;
  return major > 2 || minor >= kFirstWithVariable ? kVariable : kEarlierVariable;
}

Replayed replay(const Libraries& libraries, const Allocations& allocations, int device,
                const std::vector<std::string>& paper, const std::string& setting,
                bool without_workspaces) {
  std::vector<std::string> command{"env", "-u", kVariable, "-u", kEarlierVariable};
  command.insert(command.end(), paper.begin(), paper.end());
  if (!setting.empty()) command.push_back(setting);
  command.insert(command.end(), {libraries.replay, allocations.path, std::to_string(device)});
  if (without_workspaces) command.emplace_back("without-workspaces");
  const launch::ProgramOutput output = launch::output_of(command, kDeadlineS, launch::Errors::Ours);
  Replayed result;
  std::istringstream numbers(output.text);
  numbers >> result.peak_allocated_bytes >> result.peak_reserved_bytes >> result.is_out_of_memory;
  if (output.status == 0 && numbers) return result;
  throw EnvironmentError(
      fmt::format("the replay of {} ended with status {}", allocations.path, output.status),
      "report the version of torch");
}

}  // namespace gradsync::fit
