#include "tests/harness/results/sample_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gradsync::test {

using nlohmann::json;
using results::TrialRecord;

namespace {

constexpr std::array kStrategies = {"baseline", "no_sync_improper", "no_sync", "accumulate"};
constexpr int kLaunches = 4;
constexpr int kSteps = 4;

bool syncs_once(const std::string& strategy) {
  return strategy == "no_sync" || strategy == "accumulate";
}

int nodes_of(const json& cell) {
  return cell["topology"].get<std::string>().find("2x1") != std::string::npos ? 2 : 1;
}

// Seconds of a step without noise: compute, and communication for each micro-batch that syncs.
double ideal_step_s(const json& cell) {
  const int syncs = syncs_once(cell["strategy"]) ? 1 : 4;
  const bool paced = cell["model"] == "paced_bert_base_t4";
  const double sync_s = nodes_of(cell) == 2 ? (paced ? 0.405 : 0.3) : (paced ? 0.029 : 0.02);
  return (paced ? 0.384 : 0.6) + syncs * sync_s;
}

// A launch is up to 1 % slower than another, a step up to 0.6 % slower than the next, and no two
// strategies are disturbed alike.
std::vector<double> steps_of(const json& cell, int launch) {
  std::vector<double> steps;
  for (int step = 0; step < kSteps; ++step) {
    steps.push_back(ideal_step_s(cell) * (1 + 0.005 * launch) *
                    (1 + 0.002 * ((step + launch) % 4)) *
                    (1 + 0.003 * ((launch + cell["strategy"].get<std::string>().size()) % 3)));
  }
  return steps;
}

results::RankRecord rank_record(int rank, int node, std::vector<double> step_s, int syncs) {
  results::RankRecord record;
  record.rank = rank;
  record.node = node;
  record.step_s = step_s;
  for (const double step : step_s) {
    record.phase_s["forward"].push_back(0.3 * step);
    record.phase_s["backward"].push_back(0.6 * step);
    record.phase_s["wait"].push_back(0.08 * step);
    record.phase_s["optimizer"].push_back(0.02 * step);
    record.exposed_comm_s.push_back(0.05 * syncs * step);
  }
  record.block_s = 0;
  for (const double step : step_s) record.block_s += step;
  return record;
}

// One step drawn by a simple rule: a bucket is ready when its share of backward is done, the link
// carries one at a time, and a synced micro-batch waits for the last.
void draw_timeline(results::RankRecord& record, const json& cell) {
  constexpr int kMicroBatches = 4;
  constexpr int kBuckets = 14;
  const bool once = syncs_once(cell["strategy"]);
  const double forward_s = 0.032 + 0.0005 * record.rank;
  const double backward_s = 0.064;
  const double bucket_s = nodes_of(cell) == 2 ? 0.032 : 0.0062;
  double now_s = 0;
  for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
    record.timeline_phases.push_back({"forward", micro_batch, now_s, now_s + forward_s});
    now_s += forward_s;
    const double backward_start_s = now_s;
    now_s += backward_s;
    record.timeline_phases.push_back({"backward", micro_batch, backward_start_s, now_s});
    if (once && micro_batch + 1 < kMicroBatches) continue;
    double link_free_s = 0;
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      const double ready_s = backward_start_s + backward_s * (bucket + 1) / kBuckets;
      const double start_s = std::max(ready_s, link_free_s);
      link_free_s = start_s + bucket_s;
      record.timeline_events.push_back(
          {"all_reduce", 618857, micro_batch, bucket, start_s, link_free_s});
    }
    record.timeline_phases.push_back({"wait", micro_batch, now_s, link_free_s});
    now_s = link_free_s;
  }
  record.timeline_phases.push_back({"optimizer", kMicroBatches - 1, now_s, now_s + 0.008});
}

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kResident = 200 * kMiB;  // parameters and moments

json memory_cell(const std::string& strategy, int accumulation_steps, bool reshard_after_forward) {
  json cell = sample_cell("2x1_1gbit", strategy, "mixtral_mini");
  cell["wrapper"] = "fsdp";
  cell["accumulation_steps"] = accumulation_steps;
  cell["reshard_after_forward"] = reshard_after_forward;
  return cell;
}

// What is kept between micro-batches: whole gradients, or shards of them.
std::int64_t kept_gradients(const json& cell) {
  if (cell["accumulation_steps"] == 1) return 0;
  return (cell["strategy"] == "no_sync" ? 48 : 16) * kMiB;
}

std::int64_t gathered_parameters(const json& cell) {
  return (cell["reshard_after_forward"] ? 12 : 32) * kMiB;
}

// A step by a simple rule: activations grow in forward and fall in backward, in four layers.
void draw_memory(results::RankRecord& record, const json& cell) {
  constexpr int kLayers = 4;
  constexpr double kLayerS = 0.0125;
  const int micro_batches = cell["accumulation_steps"];
  const bool whole = cell["strategy"] == "no_sync";
  double now_s = 0;
  const auto held = [&](int micro_batch, const char* phase, int layer, int activations,
                        std::int64_t gradients) {
    std::map<std::string, std::int64_t> bytes = {{"sharded_parameter", kResident / 4},
                                                 {"optimizer_state", kResident * 3 / 4},
                                                 {"gathered_parameter", gathered_parameters(cell)},
                                                 {"activation", activations * 10 * kMiB}};
    if (gradients > 0) bytes[whole ? "unsharded_gradient" : "sharded_gradient"] = gradients;
    record.memory_timeline.push_back(
        {now_s, micro_batch, phase, "layer" + std::to_string(layer), std::move(bytes)});
    now_s += kLayerS;
  };
  for (int i = 0; i < micro_batches; ++i) {
    const std::int64_t kept = i == 0 ? 0 : kept_gradients(cell);
    for (int layer = 0; layer < kLayers; ++layer) held(i, "forward", layer, layer + 1, kept);
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      held(i, "backward", layer, layer,
           std::max(kept, (kLayers - layer) * kept_gradients(cell) / 4));
    }
  }
}

TrialRecord memory_trial(const std::string& part, const json& cell, int launch) {
  const int micro_batches = cell["accumulation_steps"];
  const int syncs = cell["strategy"] == "no_sync" ? 1 : micro_batches;
  const double step_s = (0.1 * micro_batches + 0.05 * syncs) * (1 + 0.01 * launch * syncs);
  TrialRecord trial = sample_trial(part, cell, launch, {step_s, step_s * 1.002});
  draw_memory(trial.ranks.front(), cell);
  for (results::RankRecord& rank : trial.ranks) {
    rank.peak_by_category = {{"sharded_parameter", kResident / 4},
                             {"optimizer_state", kResident * 3 / 4},
                             {"gathered_parameter", gathered_parameters(cell)},
                             {"activation", 40 * kMiB},
                             {"unsharded_gradient", kept_gradients(cell)}};
    rank.peak_allocated_bytes =
        kResident + gathered_parameters(cell) + 40 * kMiB + kept_gradients(cell);
    rank.peak_reserved_estimate_bytes = *rank.peak_allocated_bytes + 8 * kMiB;
  }
  return trial;
}

// Nothing was kept of a trial that ran out, but where that was.
void run_out(TrialRecord& trial, const results::OomPlace& place, const std::string& refusal) {
  trial.status = results::Status::Oom;
  trial.reason = fmt::format("[rank 0/2 node0] micro-batch {}, {}, unit {}; {}", place.micro_batch,
                             place.phase, place.unit, refusal);
  trial.oom_place = place;
  trial.step_s.clear();
  trial.warmup_step_s.clear();
  trial.ranks.clear();
  trial.ledger = {};
}

// Adds the trials of a cell under both strategies.
void add_to_sweep(SampleRun& run, const std::string& part, const json& change) {
  for (int launch = 0; launch < 2; ++launch) {
    for (const char* strategy : {"baseline", "no_sync"}) {
      json cell = sample_cell("2x1_1gbit", strategy);
      cell.update(change);
      const json& topology = run.context["topologies"][cell["topology"].get<std::string>()];
      const int nodes = topology["nodes"];
      const int syncs = syncs_once(strategy) ? 1 : cell["accumulation_steps"].get<int>();
      double sync_s = 0.2e9 / topology["inter_node_bits_per_s"].get<double>() * nodes / 2;
      if (cell.contains("compression")) sync_s /= 2;
      if (cell["bucket_cap_bytes"] == kMiB) sync_s *= 2;
      const double step_s = 0.01 + 0.1 * cell["accumulation_steps"].get<int>() + sync_s * syncs;
      TrialRecord trial =
          sample_trial(part, cell, launch, {step_s * (1 + 0.01 * launch), step_s * 1.005});
      trial.ranks.resize(static_cast<std::size_t>(nodes), trial.ranks[1]);
      for (int node = 0; node < nodes; ++node) {
        trial.ranks[node].rank = trial.ranks[node].node = node;
      }
      const std::int64_t bytes = cell.contains("compression") ? 22'000'000 : 44'000'000;
      trial.ledger.per_step = {{"all_reduce", {4 * syncs, bytes * syncs}}};
      trial.ledger.expected = trial.ledger.per_step;
      trial.order = static_cast<int>(run.trials.size());
      run.trials.push_back(std::move(trial));
    }
  }
}

}  // namespace

SampleRun sample_sweep_run() {
  SampleRun run;
  run.context = sample_context();
  for (const char* name : {"2x1_2gbit", "2x1_4gbit", "3x1_1gbit", "4x1_1gbit"}) {
    run.context["topologies"][name] = {{"nodes", name[0] - '0'},
                                       {"ranks_per_node", 1},
                                       {"inter_node_bits_per_s", (name[4] - '0') * 1e9}};
  }
  run.plan = {{"name", "sweeps"}};
  for (const int accumulation_steps : {1, 2, 4, 8}) {
    add_to_sweep(run, "accumulation", {{"accumulation_steps", accumulation_steps}});
    add_to_sweep(run, "accumulation",
                 {{"accumulation_steps", accumulation_steps}, {"compression", "fp16"}});
  }
  for (const std::int64_t cap_bytes : {std::int64_t{0}, kMiB, 5 * kMiB, 25 * kMiB}) {
    add_to_sweep(run, "buckets", {{"bucket_cap_bytes", cap_bytes}});
  }
  for (const char* topology : {"2x1_1gbit", "2x1_2gbit", "2x1_4gbit"}) {
    add_to_sweep(run, "links", {{"topology", topology}});
  }
  for (const char* topology : {"2x1_1gbit", "3x1_1gbit", "4x1_1gbit"}) {
    add_to_sweep(run, "nodes", {{"topology", topology}});
  }
  return run;
}

json sample_cell(const std::string& topology, const std::string& strategy, const std::string& model,
                 int scale) {
  return {{"topology", topology},  {"model", model},          {"wrapper", "ddp"},
          {"strategy", strategy},  {"accumulation_steps", 4}, {"micro_batch_size", 16},
          {"sequence_length", 64}, {"lengths", "fixed"},      {"bucket_cap_bytes", 0},
          {"scale", scale}};
}

json sample_context() {
  return {{"gradsync", "0.1.0"},
          {"commit", "3f2c1ab"},
          {"build_type", "Release"},
          {"timing_valid", true},
          {"torch", "2.11.0"},
          {"backend", "gloo"},
          {"seed", 42},
          {"host", "sample"},
          {"cpus_usable", 2},
          {"start_time", "2026-01-31T12:00:00Z"},
          {"topologies",
           {{"1x2", {{"nodes", 1}, {"ranks_per_node", 2}}},
            {"1x8", {{"nodes", 1}, {"ranks_per_node", 8}}},
            {"2x1_1gbit", {{"nodes", 2}, {"ranks_per_node", 1}, {"inter_node_bits_per_s", 1e9}}},
            {"t4_1x2", {{"nodes", 1}, {"ranks_per_node", 2}, {"intra_node_bits_per_s", 4.079e10}}},
            {"t4_2x1", {{"nodes", 2}, {"ranks_per_node", 1}, {"inter_node_bits_per_s", 7.95e9}}}}}};
}

TrialRecord sample_trial(const std::string& part, const json& cell, int launch,
                         std::vector<double> step_s) {
  TrialRecord trial;
  trial.part = part;
  trial.cell = cell;
  trial.launch = launch;
  trial.step_s = step_s;
  trial.warmup_step_s = {2 * step_s.front()};
  const int syncs = syncs_once(cell["strategy"]) ? 1 : 4;
  trial.ranks.push_back(rank_record(0, 0, step_s, syncs));
  for (double& step : step_s) step -= 0.001;
  trial.ranks.push_back(rank_record(1, nodes_of(cell) - 1, step_s, syncs));
  for (results::RankRecord& rank : trial.ranks) draw_timeline(rank, cell);
  const int scale = cell["scale"];
  trial.ledger.per_step = {{"all_reduce", {14 * syncs, 433200000 / scale * syncs}}};
  trial.ledger.expected = trial.ledger.per_step;
  trial.ledger.matches = true;
  trial.ledger.buckets = 14;
  trial.model_info.emplace().paced = trial.cell.model().starts_with("paced");
  return trial;
}

void stretch(TrialRecord& trial, double factor) {
  const auto stretch_all = [factor](std::vector<double>& times) {
    for (double& time : times) time *= factor;
  };
  stretch_all(trial.step_s);
  for (results::RankRecord& rank : trial.ranks) {
    stretch_all(rank.step_s);
    stretch_all(rank.exposed_comm_s);
    for (auto& [phase, times] : rank.phase_s) stretch_all(times);
    rank.block_s *= factor;
  }
}

SampleRun sample_run() {
  SampleRun run;
  run.context = sample_context();
  run.plan = {
      {"name", "slowdown_table"},
      {"parts",
       {{{"name", "your_machine"}, {"about", "Your machine: real compute."}},
        {{"name", "guides_machines"}, {"about", "The guide's machines: two T4 re-enacted."}}}}};
  for (const bool paced : {false, true}) {
    for (int launch = 0; launch < kLaunches; ++launch) {
      for (const char* topology : {paced ? "t4_1x2" : "1x2", paced ? "t4_2x1" : "2x1_1gbit"}) {
        // Turns run in another order each time, as a real plan's do.
        for (std::size_t turn = 0; turn < kStrategies.size(); ++turn) {
          const char* strategy = kStrategies[(turn + launch) % kStrategies.size()];
          const json cell = sample_cell(topology, strategy,
                                        paced ? "paced_bert_base_t4" : "bert_mini", paced ? 50 : 1);
          run.trials.push_back(sample_trial(paced ? "guides_machines" : "your_machine", cell,
                                            launch, steps_of(cell, launch)));
          run.trials.back().order = static_cast<int>(run.trials.size()) - 1;
        }
      }
    }
  }
  return run;
}

SampleRun sample_memory_run() {
  constexpr std::int64_t kBudget = 290 * kMiB;
  SampleRun run;
  run.context = sample_context();
  run.plan = {{"name", "memory_sweep"},
              {"parts",
               {{{"name", "sweep"}, {"about", "Over accumulation, in both shardings."}},
                {{"name", "budget"}, {"about", "In a budget between the two peaks."}}}}};
  for (const bool with_budget : {false, true}) {
    for (int launch = 0; launch < 4; ++launch) {
      for (const bool reshard_after_forward : {true, false}) {
        if (with_budget && !reshard_after_forward) continue;
        for (const int accumulation_steps : {1, 2, 4}) {
          for (const char* strategy : {"sync_each_batch", "no_sync"}) {
            json cell = memory_cell(strategy, accumulation_steps, reshard_after_forward);
            if (with_budget) cell["memory_budget_bytes"] = kBudget;
            TrialRecord trial = memory_trial(with_budget ? "budget" : "sweep", cell, launch);
            if (with_budget && *trial.ranks[0].peak_allocated_bytes > kBudget) {
              run_out(trial, {2, "backward", "layer3"},
                      "asked 12582912 bytes, had 6291456 of a budget of 304087040 bytes");
            }
            trial.order = static_cast<int>(run.trials.size());
            run.trials.push_back(std::move(trial));
          }
        }
      }
    }
  }
  return run;
}

SampleRun sample_mixtral_run() {
  constexpr std::int64_t kGiB = 1 << 30;
  struct Row {
    const char* strategy;
    int accumulation_steps;
    std::int64_t peak_bytes;  // 0: more than there was
  };
  SampleRun run;
  run.context = sample_context();
  run.plan = {{"name", "mixtral_8x7b"}};
  for (const Row& row : {Row{"no_sync", 1, 58 * kGiB}, Row{"no_sync", 2, 0},
                         Row{"sync_each_batch", 16, 58 * kGiB + kGiB / 2}}) {
    json cell = memory_cell(row.strategy, row.accumulation_steps, true);
    cell.update({{"topology", "1x8"},
                 {"model", "mixtral_8x7b"},
                 {"micro_batch_size", 1},
                 {"sequence_length", 16},
                 {"dtype", "bfloat16"},
                 {"param_dtype", "bfloat16"},
                 {"reduce_dtype", "bfloat16"},
                 {"memory_budget_bytes", 79 * kGiB}});
    TrialRecord trial = sample_trial("", cell, 0, {1.0});
    trial.model_info->refuse_times("one rank of 8 ran, and nothing was sent");
    trial.ranks.resize(1);  // of eight
    trial.ranks[0].peak_allocated_bytes = row.peak_bytes;
    trial.ranks[0].peak_reserved_estimate_bytes = row.peak_bytes + 2 * kGiB;
    if (row.peak_bytes == 0) {
      run_out(trial, {1, "backward", "layer12"},
              "asked 2902540288 bytes, had 1073741824 of a budget of 84825604096 bytes");
    }
    if (row.accumulation_steps > 2) trial.ledger.declared_micro_batches = 12;
    trial.order = static_cast<int>(run.trials.size());
    run.trials.push_back(std::move(trial));
  }
  return run;
}

}  // namespace gradsync::test
