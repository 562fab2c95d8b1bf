// gradsync predict memory: the peak memory of a rank, before anything runs. gradsync predict step
// is in predict_step_command.cpp.
#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <string_view>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/memory_rows.h"
#include "benchmarks/commands/plan_options.h"
#include "benchmarks/commands/predict_job.h"
#include "harness/launch/topology.h"
#include "harness/memory/memory_prediction.h"
#include "harness/paper/standins.h"
#include "harness/plan/known_options.h"
#include "harness/plan/overrides.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"
#include "models/profile.h"
#include "models/suite.h"

namespace gradsync::cli {
namespace {

struct MemoryOptions {
  std::string model;
  std::vector<std::string> overrides;
  int world_size = 0;  // 0: as the topology says
  std::string budget;
  std::vector<std::string> units;  // of a recorded model; empty: as it was recorded
  std::string backend = "gloo";    // of a recorded model's job
  std::string device = "cpu";      // as a plan has it
  std::string on;                  // which GPUs, where it is one; empty: as a plan has them
  bool as_json = false;
};

// Predicts what a rank holds, in a trial of the cell or in a recorded job.
using Predict = std::function<memory::MemoryPrediction(const plan::Cell&, const launch::Topology&)>;

std::vector<plan::Cell> cells_of(const MemoryOptions& options) {
  const std::string who = "predict memory";
  return plan::multiply_out(plan::overridden_cells(options.overrides, options.model, who), who,
                            "cells.");
}

launch::Topology topology_of(const plan::Cell& cell, int world_size) {
  launch::Topology topology =
      launch::read_topology(cell.topology, session::topologies_directory(), cell.scale);
  if (world_size == 0) return topology;
  topology.nodes = 1;
  topology.ranks_per_node = world_size;
  return topology;
}

// Predicts a trial. A Mixtral's experts get equal shares of the tokens: the load of a free router
// is not known beforehand.
memory::MemoryPrediction predict_trial(plan::Cell cell, const launch::Topology& topology,
                                       const MemoryOptions& options) {
  launch::LaunchSpec where;
  where.topology = topology;
  if (options.device != "cpu") {
    where.device = "cuda";
    where.paper = options.device == "paper";
    where.on = where.paper && options.on.empty() ? "h100" : options.on;
    where.backend = "nccl";
  }
  cell.balanced_routing = true;
  return memory::predict_memory(cell, where);
}

std::pair<plan::Prediction, Predict> predictor_of(const MemoryOptions& options) {
  if (models::is_profile(options.model)) {
    if (auto memory = models::read_profile(options.model).memory) {
      if (options.device != "cpu") {
        throw ConfigError("--set device: got " + options.device +
                          ", expected cpu: a profile was recorded there");
      }
      const auto units =
          models::modules_named(*memory, options.units.empty() ? memory->units : options.units);
      return {plan::Prediction::JobMemory,
              [memory = std::move(*memory), units, backend = options.backend](
                  const plan::Cell& cell, const launch::Topology& topology) {
                return memory::predict_job_memory(memory, cell, units, topology.world_size(),
                                                  backend);
              }};
    }
  }
  if (!options.units.empty()) {
    throw ConfigError("--units: expected a profile that recorded its model's memory, got " +
                      options.model);
  }
  if (options.backend != MemoryOptions{}.backend) {
    throw ConfigError("--backend: got " + options.backend +
                      ", expected gloo: memory is predicted for CPU kernels only");
  }
  session::find_model(options.model);  // names the models there are
  return {plan::Prediction::Memory,
          [options](const plan::Cell& cell, const launch::Topology& topology) {
            return predict_trial(cell, topology, options);
          }};
}

// Removes `device`, a field of plans and not of cells, from what --set says, and returns it.
std::string taken_device(std::vector<std::string>& overrides) {
  std::string device = take_override(overrides, "device").value_or("cpu");
  if (device != "cpu" && device != "cuda" && device != "paper") {
    throw ConfigError(fmt::format("--set device: got \"{}\", expected cpu, cuda or paper", device));
  }
  return device;
}

// On a GPU, the budget limits what torch's allocator takes from the device, in segments.
bool fits(const Predict& predict, plan::Cell cell, const launch::Topology& topology,
          std::int64_t budget) {
  cell.memory_budget_bytes = budget;
  const auto memory = predict(cell, topology).memory;
  return memory && memory->peak_bytes <= budget && !memory->ran_out;
}

// Returns the largest number of micro-batches per step such that it and all smaller ones fit; at
// most kMostMicroBatches. 0: not even one fits.
int largest_accumulation(const Predict& predict, plan::Cell cell, const launch::Topology& topology,
                         std::int64_t budget) {
  for (int count = 1; count <= kMostMicroBatches; ++count) {
    cell.accumulation_steps = count;
    if (!fits(predict, cell, topology, budget)) return count - 1;
  }
  return kMostMicroBatches;
}

std::string words(const memory::StepPlace& place) {
  if (place.micro_batch < 0) return "between steps";
  return fmt::format("micro-batch {}, {}{}{}", place.micro_batch + 1, place.phase,
                     place.unit.empty() ? "" : ", unit ", place.unit);
}

Known<std::int64_t> reserved_of(const memory::MemoryPrediction& prediction) {
  if (!prediction.memory) return Unknown{prediction.unknown_because};
  if (const auto& bytes = prediction.memory->peak_reserved_bytes) return *bytes;
  return Unknown{
      "the profile has sums and no single allocations: record the model again (one whose "
      "micro-batches allocate differently has none)"};
}

MemoryRow row_of(const Predict& predict, const plan::Cell& cell, const MemoryOptions& options) {
  const launch::Topology topology = topology_of(cell, options.world_size);
  const auto prediction = predict(cell, topology);
  MemoryRow row;
  row.cell = cell;
  row.world_size = topology.world_size();
  if (options.device != "cpu") row.device = options.device;
  row.unknown_because = prediction.unknown_because;
  row.peak_reserved_bytes = reserved_of(prediction);
  if (!prediction.memory) return row;
  row.peak_bytes = prediction.memory->peak_bytes;
  row.peak_by_category = measure::by_name(prediction.memory->peak_by_category);
  if (cell.offload != "none") row.host_peak_bytes = prediction.memory->host_peak_bytes;
  row.place = words(prediction.memory->peak_place);
  if (options.budget.empty()) return row;
  const std::int64_t budget = read_budget(options.budget);
  row.budget_bytes = budget;
  row.fits = fits(predict, cell, topology, budget);
  row.largest_accumulation_steps = largest_accumulation(predict, cell, topology, budget);
  return row;
}

void predict_memory_of(const MemoryOptions& options) {
  const auto [prediction, predict] = predictor_of(options);
  const std::vector<plan::Cell> cells = cells_of(options);
  plan::refuse_unknown(options.overrides, cells, prediction, "predict memory");
  std::vector<MemoryRow> rows;
  for (const plan::Cell& cell : cells) rows.push_back(row_of(predict, cell, options));
  if (!options.as_json) return print_memory(rows);
  std::cout << memory_json(rows) << "\n";
}

void require_model(const CLI::App& command, const MemoryOptions& options) {
  for (const char* name : kOptionsOfJob) {
    if (command.get_option(name)->count() == 0) continue;
    if (name == std::string_view("--on") && options.device != "cpu") {
      paper::require_gpus(options.on);
      continue;
    }
    throw ConfigError(fmt::format(
        "{} needs a COMMAND: gradsync predict memory --on 8xh100 -- torchrun ... train.py", name));
  }
  if (options.model.empty()) {
    throw ConfigError(
        "predict memory: expected MODEL, or --on GPUS -- COMMAND for your own training job");
  }
}

}  // namespace

void add_predict_command(CLI::App& app, ExitStatus& status, std::vector<std::string> job) {
  CLI::App* predict =
      app.add_subcommand("predict", "Predict a run's peak memory or step time")->group(kRuns);
  predict->require_subcommand(1);
  add_predict_step_command(*predict);
  add_predict_links_command(*predict);
  CLI::App* command = predict->add_subcommand(
      "memory", "Peak memory of a rank, its parts, and where the peak is reached");
  auto options = std::make_shared<MemoryOptions>();
  auto of_job = std::make_shared<JobMemoryOptions>();
  of_job->command = std::move(job);
  command->add_option("MODEL", options->model, "A name, or a profile's path");
  add_cell_options(*command, options->overrides,
                   {"topology", "wrapper", "strategy", "accumulation-steps", "micro-batch-size",
                    "sequence-length"});
  command->add_option("--world-size", options->world_size, "Ranks, all on one node")
      ->check(CLI::Range(1, plan::kLargestCount));
  command->add_option("--budget", options->budget,
                      "Memory that a rank may hold, as in 79GiB: says whether the run fits");
  command
      ->add_option("--units", options->units,
                   "For a recorded model: the modules or classes that fully_shard is given, as "
                   "GPT2Block,lm_head (as it was recorded)")
      ->delimiter(',');
  command
      ->add_option("--backend", options->backend,
                   "For a recorded model: gloo copies what fully_shard sends, nccl does not "
                   "(gloo)")
      ->check(is_one_of({"gloo", "nccl"}));
  command->add_flag("--json", options->as_json, "Print JSON instead of the table");
  add_job_options(*command, *of_job);
  command->callback([=, &status] {
    of_job->as_json = options->as_json;
    if (of_job->command.empty()) {
      options->device = taken_device(options->overrides);
      options->on = of_job->on;
      require_model(*command, *options);
      return predict_memory_of(*options);
    }
    refuse_model_options(*command);
    status = predict_memory_of_job(*of_job);
  });
}

}  // namespace gradsync::cli
