// The rows of the table of axes: all that is known of each option of a cell. Those that change what
// a model's units do are in model_options.cpp.
#include <algorithm>

#include "harness/plan/axis_kinds.h"
#include "harness/plan/strategies.h"

namespace gradsync::plan {
namespace {

using enum Prediction;
using Model = models::ModelDescription;

template <typename Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

const std::vector<Prediction> kAll{Memory, JobMemory, Step, Advice, Pace};
const std::vector<Prediction> kRuns{Memory, JobMemory, Step, Pace};  // advice has it at its default

const std::vector<std::string> kDtypes{"float32", "bfloat16"};

std::ptrdiff_t reductions_of(const Cell& cell) {
  return std::ranges::count(declared_syncs(cell.wrapper, cell.strategy, cell.accumulation_steps),
                            true);
}

// What runs, on what.
std::vector<Axis> work() {
  return {
      name("topology", &Cell::topology, "Nodes and ranks, by a file's name or as NxR.")
          .known(kAll)
          .work(),
      name("model", &Cell::model, "A model's name, or the path of a profile.").known(kAll).work(),
      one_of("wrapper", &Cell::wrapper, names_of(wrappers()),
             "Which wrapper synchronizes gradients; all but ddp and fsdp are steps on the road to "
             "DDP.")
          .lever()
          .known_as({"ddp", "fsdp"}, {Memory, Advice})
          .known_as({"ddp", "fsdp", "local"}, {JobMemory})
          .known_as({"ddp", "fsdp", "local", "by_hand", "by_hand_coalesced"}, {Step})
          .known({Pace})
          .unknown(Step, "a pipeline's stages are not in a profile"),
      count("micro_batch_size", &Cell::micro_batch_size, "Examples per rank and micro-batch.")
          .known(kAll)
          .work()
          .recorded(),
      count("sequence_length", &Cell::sequence_length,
            "Tokens per example; the longest under mrpc.")
          .known(kAll)
          .work()
          .needs(&Model::sequence_length)
          .recorded(),
      one_of("lengths", &Cell::lengths, {"fixed", "mrpc"},
             "Lengths of examples: all equal, or drawn per rank and batch as the guide's data has "
             "them.")
          .work()
          .needs(&Model::lengths)
          .clash([](const Cell& cell) { return cell.wrapper == "pipeline"; },
                 "fixed under wrapper pipeline")
          .known({Pace})
          .unknown(Memory, "examples differ in length, and so does what a micro-batch holds")
          .unknown(JobMemory, "a profile has one length of a micro-batch")
          .unknown(Step, "a profile has one length of a micro-batch"),
  };
}

std::vector<Axis> options_of_ddp() {
  return {
      size("bucket_cap_bytes", &Cell::bucket_cap_bytes, "DDP's default", "25MiB",
           "0: DDP's default, a first bucket of 1 MiB, then 25 MiB.")
          .under("ddp")
          .about_way()
          .known(kAll),
      flag("gradient_as_bucket_view", &Cell::gradient_as_bucket_view,
           "Gradients are views of the buckets that are reduced.")
          .under("ddp")
          .about_way()
          .lever()
          .known(kAll),
      flag("find_unused_parameters", &Cell::find_unused_parameters,
           "After each forward DDP searches for parameters that it did not use.")
          .under("ddp")
          .about_way()
          .known({Pace}),
      flag("static_graph", &Cell::static_graph,
           "DDP learns in its first step which parameters every forward uses.")
          .under("ddp")
          .about_way()
          .known({Pace}),
      one_of("compression", &Cell::compression, {"none", "fp16", "bf16"},
             "ddp: gradients cross the wire in two bytes each, cast before and after; none where "
             "dtype is bfloat16.")
          .under("ddp")
          .clash([](const Cell& cell) { return cell.dtype != "float32"; },
                 "none where dtype is bfloat16, which has 2 bytes already")
          .about_way()
          .known({Step, Advice, Pace}),
  };
}

std::vector<Axis> options_of_fsdp() {
  return {
      one_of("param_dtype", &Cell::param_dtype, kDtypes,
             "fsdp: type of gathered parameters and compute; by default as stored.")
          .under("fsdp")
          .about_memory()
          .known(kRuns),
      one_of("reduce_dtype", &Cell::reduce_dtype, kDtypes,
             "fsdp: type of gradients on the wire; by default as stored.")
          .under("fsdp")
          .about_memory()
          .known(kAll),
      one_of("gradient_dtype", &Cell::gradient_dtype, {"reduce", "param"},
             "fsdp: unsharded gradients accumulate in reduce_dtype, or in param_dtype.")
          .under("fsdp")
          .about_memory()
          .known({Memory, Step, Pace})
          .unknown(JobMemory, "fully_shard accumulates in the type that it reduces"),
      flag("optimizer_in_backward", &Cell::optimizer_in_backward,
           "fsdp: a unit's parameters are stepped in backward, once their gradient is reduced, "
           "and the gradient is freed; only where a step reduces once.")
          .under("fsdp")
          .clash([](const Cell& cell) { return reductions_of(cell) > 1; },
                 "false where strategy {strategy} reduces in each of {accumulation_steps} "
                 "micro-batches: every reduction would be a step")
          .lever()
          .about_memory()
          .known({Memory})
          .unknown(Step, "an optimizer that steps in backward is not in a profile")
          .unknown(Pace, "a paced model has its optimizer's time in its profile"),
      flag("hybrid_shard", &Cell::hybrid_shard,
           "fsdp: shard inside a node, all_reduce across nodes.")
          .under("fsdp")
          .lever()
          .known({Memory, Step, Advice, Pace}),
      flag("prefetch", &Cell::prefetch, "fsdp: gather one unit ahead.")
          .under("fsdp")
          .lever()
          .known({Memory, Step, Pace})
          .unknown(JobMemory, "fully_shard gathers ahead in backward"),
      flag("reshard_after_backward", &Cell::reshard_after_backward,
           "fsdp: free parameters after backward, or keep them until the micro-batch that "
           "synchronizes.")
          .under("fsdp")
          .lever()
          .known(kAll),
      flag("reshard_after_forward", &Cell::reshard_after_forward,
           "fsdp: free parameters between forward and backward (FULL_SHARD), or keep them "
           "(SHARD_GRAD_OP).")
          .under("fsdp")
          .lever()
          .about_memory()
          .known(kAll),
  };
}

std::vector<Axis> what_varies_fastest() {
  return {
      size(
          "memory_budget_bytes", &Cell::memory_budget_bytes, "no budget", "79GiB",
          "Limit for the tensors of a rank, from its first step on; more is oom, as on a full GPU. "
          "0: no budget.")
          .work()
          .if_any()
          .about_memory()
          .known(kRuns),
      count("accumulation_steps", &Cell::accumulation_steps, "Micro-batches per step.")
          .about_memory()
          .known(kAll),
      one_of("strategy", &Cell::strategy, names_of(strategies()),
             "Which micro-batches of a step synchronize, and who decides it.")
          .work()
          .clash(
              [](const Cell& cell) {
                return std::ranges::count(strategies_under(cell.wrapper), cell.strategy) == 0;
              },
              "{strategies} under wrapper {wrapper}")
          .lever()
          .known(kRuns)
          .known_as({"baseline", "no_sync"}, {Advice}),
  };
}

}  // namespace

const std::vector<Axis>& axes() {
  static const std::vector<Axis> table = [] {
    std::vector<Axis> all;
    for (const auto rows :
         {work, options_of_ddp, options_of_models, options_of_fsdp, what_varies_fastest}) {
      for (Axis& axis : rows()) all.push_back(std::move(axis));
    }
    return all;
  }();
  return table;
}

}  // namespace gradsync::plan
