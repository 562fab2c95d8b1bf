// write_sample_run DIR [memory|sweep]: the sample run, or the one of memory or of sweeps, as a
// directory of result files, for tests in other languages.
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include "harness/report/formats.h"
#include "harness/results/store.h"
#include "harness/summary/build_result.h"
#include "tests/harness/results/sample_run.h"

int main(int argc, char** argv) {
  using namespace gradsync;
  const std::map<std::string, test::SampleRun (*)()> samples = {{"", test::sample_run},
                                                                {"memory", test::sample_memory_run},
                                                                {"sweep", test::sample_sweep_run}};
  const auto sample = samples.find(argc == 3 ? argv[2] : "");
  if (argc < 2 || argc > 3 || sample == samples.end()) {
    std::cerr << "usage: write_sample_run DIR [memory|sweep]\n";
    return 2;
  }
  const std::string directory = argv[1];
  auto run = sample->second();
  run.plan["schema"] = "gradsync.plan/1";
  run.context["end_time"] = "2026-01-31T12:05:00Z";
  run.context["command_line"] = "gradsync run " + run.plan["name"].get<std::string>();
  auto result = summary::build_result(run.context, run.plan, run.trials);
  result.exit_status = 0;
  std::ofstream(directory + "/result.json") << nlohmann::json(result).dump(1) << "\n";
  std::ofstream(directory + "/benchmark.json")
      << report::benchmark_json(result, run.trials).dump(1);
  results::TrialLog trials(directory);
  for (const auto& trial : run.trials) trials.append(trial);
  return 0;
}
