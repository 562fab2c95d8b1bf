// A plan file, and the ordered list of trials it means. Pure: no processes, no clock, no torch.
//
// Lists under "cells" multiply out; "parts" run one after the other. A launch is one start of all
// ranks of one topology; inside it every cell of that topology is resident and the cells take turns
// in rounds, in an order drawn from the seed, so that a drifting machine drifts for all of them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradsync::plan {

// One combination of plan parameters. Field names are those of the plan file, and what each means
// is in its row (options.cpp, model_options.cpp), which `gradsync list options` prints.
struct Cell {
  std::string topology = "1x2";
  std::string model = "bert_mini";
  std::string wrapper = "ddp";
  std::string strategy = "baseline";
  int accumulation_steps = 4;  // micro-batches per step
  int micro_batch_size = 16;   // examples per rank and micro-batch
  int sequence_length = 64;    // tokens per example (`fixed`), or the longest (`mrpc`)
  std::string lengths = "fixed";
  std::int64_t bucket_cap_bytes = 0;  // 0: DDP's default, a first bucket of 1 MiB, then 25 MiB
  bool gradient_as_bucket_view = false;
  bool find_unused_parameters = false;
  bool static_graph = false;
  int scale = 1;                         // paced models
  std::int64_t memory_budget_bytes = 0;  // of a rank's tensors; 0: what the machine has
  std::string dtype = "float32";         // of parameters as stored, and of their moments
  bool class_skew = false;
  bool balanced_routing = false;
  std::string compression = "none";              // sync/ddp.h
  int activation_checkpointing = 0;              // each n-th unit; 0: none (models/recompute.h)
  std::string selective_checkpointing = "none";  // models/selective.h
  int frozen_units = 0;                          // models/frozen_units.h
  int lora_rank = 0;                             // 0: the weights are trained (models/lora.h)
  std::string lora_modules = "query_value";
  std::string attention = "eager";  // models/bert_config.h
  std::string offload = "none";     // memory/memory_account.h
  std::string autocast = "none";
  bool master_weights = false;  // sync/adamw.h
  bool fused_optimizer = true;  // false: AdamW parameter by parameter (sync/adamw.h)
  bool broadcast_buffers = true;
  bool sync_batch_norm = false;
  // Under wrapper fsdp only; elsewhere they keep these values. See sync/fsdp/fsdp.h.
  bool reshard_after_forward = true;      // FULL_SHARD; false: SHARD_GRAD_OP
  bool reshard_after_backward = true;     // false: keep parameters gathered between micro-batches
  std::string param_dtype = "float32";    // of gathered parameters and compute
  std::string reduce_dtype = "float32";   // of gradients on the wire; both: by default as stored
  std::string gradient_dtype = "reduce";  // unsharded gradients; "param": as FSDP1
  bool prefetch = true;                   // gather one unit ahead
  bool optimizer_in_backward = false;     // each unit's step, once its gradient is reduced
  bool hybrid_shard = false;              // shard inside a node, all_reduce across nodes
  bool operator==(const Cell&) const = default;
};

// Writes every field that means something under the cell's wrapper.
void to_json(nlohmann::json& out, const Cell& cell);

// Returns the cell that a results file or a launch specification holds; strict.
// Errors: ConfigError naming `file` and the field.
Cell cell_from_json(const nlohmann::json& in, const std::string& file);

// Cells that run under the same rules; every plan has at least one part.
struct Part {
  std::string name;  // "" where the plan has no "parts"
  std::string about;
  std::vector<Cell> cells;  // in the order of the plan file, strategy varying fastest
  int steps = 8;            // timed steps per cell, round and launch
  int total_steps = 0;      // or: timed steps per cell over all trials, dealt out evenly (29 over 4
                            // launches: 8, 7, 7, 7); 0: use `steps`
  int warmup_steps = 3;     // per trial; at least 1 (the bucket rebuild is past before the first);
                            // 0 under as_published, which has none, and where nothing is timed
  bool timed = true;  // false: no time is wanted, and a micro-batch that repeats the one before
                      // to the byte need not run (run/repetition.h); so under backend "fake"
  int distance_steps = 0;  // of each cell's first trial, after the timed ones and outside the
                           // clock: after each of them the ranks compare their parameters
  int rounds = 1;
  int launches = 1;
  std::string expected_failure;  // a trial that fails with a reason that contains this text has
                                 // given its answer; "": no trial is expected to fail
};

struct Plan {
  std::string file;  // where it was read from, for messages
  std::string name;
  std::string about;
  std::uint64_t seed = 42;
  double timeout_s = 60;               // a step or a collective may take this long
  std::string window_rule = "honest";  // or "as_published": each trial is a whole run of its own
                                       // (`total_steps` is then not dealt out), without warm-up
  int threads_per_rank = 1;
  std::string device = "cpu";    // or "cuda"; "paper": cuda's code on GPUs of paper
  std::string on;                // of paper: which GPUs a host has, as "8xh100"; "": one a rank
  std::string backend = "gloo";  // or "nccl"; "fake": one real rank of the world, nothing is sent
  std::string gloo_loop = "spins";   // as torch has it; "yields": see comm/gloo_loop.h
  std::int64_t fold_from_bytes = 0;  // tensors of this size and more share one small memory and
                                     // hold garbage (measure/folding.h); 0: none
  bool every_micro_batch = false;    // also of what is not timed
  std::vector<Part> parts;
  nlohmann::json source;  // the file with every override applied
};

// Returns the file of the plan `name`: DIRECTORY/NAME.json, or the file `name` itself.
// Errors: ConfigError listing the plans there are.
std::string resolve_plan(const std::string& name, const std::string& directory);

// Returns the names of the plans in `directory`, sorted, without schemas.
std::vector<std::string> list_plans(const std::string& directory);

// Returns the plan. A path (NAME.json) of a topology or profile is relative to the plan's file; in
// an override, to the working directory. Each override is "key=value", where key is a field of the
// plan, of its cells ("cells.model" or just "model"), or of one part ("PART.steps"); value is JSON,
// or a bare word, or words with commas for a list. Without "PART." it holds for every part.
// "parts=NAME,..." keeps only those parts. Errors: ConfigError with file, field, got, expected.
Plan read_plan(const std::string& path, const std::vector<std::string>& overrides);
Plan parse_plan(const nlohmann::json& source, const std::string& file);

struct Trial {
  int order = 0;  // over the whole plan
  Cell cell;
  int round = 0;
  int steps = 0;
  int warmup_steps = 0;
  int distance_steps = 0;
  bool timed = true;
};

// One start of all ranks of one topology, with its trials in the order they run.
struct Launch {
  std::string part;
  std::string topology;
  int launch = 0;
  int scale = 1;
  std::vector<Trial> trials;
};

// Returns every launch of the plan in order: part by part; inside a part, launch by launch; inside
// that, topology by topology. Cells of different scale are launched apart (their links differ).
// The same plan and seed give the same list.
std::vector<Launch> expand(const Plan& plan);

}  // namespace gradsync::plan
