// The rows of the table of axes: all that is known of each option of a cell.
#include "harness/plan/axis_kinds.h"
#include "harness/plan/strategies.h"

namespace gradsync::plan {
namespace {

using enum Prediction;

template <typename Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

const std::vector<Prediction> kAll{Memory, JobMemory, Step, Advice, Pace};
const std::vector<Prediction> kRuns{Memory, JobMemory, Step, Pace};  // advice has it at its default

const std::vector<std::string> kDtypes{"float32", "bfloat16"};

// What runs, on what.
std::vector<Axis> work() {
  return {
      name("topology", &Cell::topology, "Nodes and ranks, by a file's name or as NxR.").known(kAll),
      name("model", &Cell::model, "A model's name, or the path of a profile.").known(kAll),
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
          .recorded(),
      count("sequence_length", &Cell::sequence_length,
            "Tokens per example; the longest under mrpc.")
          .known(kAll)
          .recorded(),
      one_of("lengths", &Cell::lengths, {"fixed", "mrpc"},
             "Lengths of examples: all alike, or drawn per rank and batch as the guide's data has "
             "them.")
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
          .about_way()
          .known({Step, Advice, Pace}),
  };
}

// What trades memory for time, and which parameters are trained.
std::vector<Axis> levers_of_units() {
  const std::string paced = "a paced model takes the time of what its profile was recorded in";
  return {
      every_nth("activation_checkpointing", &Cell::activation_checkpointing,
                "Units of the model that keep no activations and run again in backward: none, all "
                "of them, or every second, third, ...")
          .lever()
          .about_memory()
          .known({Memory, Pace})
          .unknown(JobMemory, "record the model with its activation checkpointing")
          .unknown(Step, "units run again in backward"),
      one_of("selective_checkpointing", &Cell::selective_checkpointing,
             {"none", "attention", "matmul"},
             "What checkpointed units keep and do not make again: nothing, outputs of attention, "
             "or of every matrix product and of attention; none where no unit is checkpointed.")
          .lever()
          .about_memory()
          .known({Memory})
          .unknown(Pace, "a paced layer that runs again takes the time of its whole forward"),
      count_from_zero("frozen_units", &Cell::frozen_units,
                      "Units of the model that are not trained: so many, from the first, with all "
                      "parameters that come before them.")
          .known({Memory})
          .unknown(JobMemory, "record the model with what it freezes")
          .unknown(Step, "what a frozen unit spares is not in a profile"),
      count_from_zero("lora_rank", &Cell::lora_rank,
                      "Rank of the low-rank updates that are trained of a BERT, with its "
                      "classifier, while all weights are frozen, as by peft. 0: none, the weights "
                      "are trained.")
          .known({Memory})
          .unknown(JobMemory, "record the model with its low-rank updates")
          .unknown(Step, "what low-rank updates take is not in a profile"),
      one_of("lora_modules", &Cell::lora_modules, {"query_value", "attention", "all_linear"},
             "Linear layers that low-rank updates are beside: queries and values, as peft has by "
             "default for a BERT; keys and attention's output, too; or all but the classifier, as "
             "peft's all-linear. query_value where lora_rank is 0.")
          .known({Memory}),
      one_of("attention", &Cell::attention, {"eager", "sdpa"},
             "Of a BERT. eager: spelled out, the default. sdpa: torch's "
             "scaled_dot_product_attention, as transformers has by default.")
          .lever()
          .known({Memory})
          .unknown(JobMemory, "record the model with its attention")
          .unknown(Step, "what sdpa takes is not in a profile"),
      one_of("offload", &Cell::offload, {"none", "optimizer_state", "parameters"},
             "To the host: the optimizer's state, with a copy of what it steps, or, under fsdp, "
             "parameters with their gradients and state, as fully_shard's CPUOffloadPolicy.")
          .lever()
          .about_memory()
          .known({Memory})
          .unknown(Step, "copies to the host and back are not in a profile")
          .unknown(Pace, "what copies to the host and back take is not in a profile"),
      flag("fused_optimizer", &Cell::fused_optimizer,
           "false: AdamW steps parameter by parameter, as torch's own in C++.")
          .about_way()
          .unknown(Memory, "declared is what the fused optimizer holds")
          .unknown(JobMemory, "declared is what the fused optimizer holds")
          .unknown(Pace, "a paced model has its optimizer's time in its profile"),
      flag("broadcast_buffers", &Cell::broadcast_buffers,
           "ddp: rank 0's buffers go to all before a forward that follows a synchronization.")
          .under("ddp")
          .known(kRuns),
      flag("sync_batch_norm", &Cell::sync_batch_norm,
           "ddp: batch normalization with the statistics of all ranks, which communicate in every "
           "micro-batch.")
          .unknown(Step, "the collectives of SyncBatchNorm are not in a profile"),
      flag("class_skew", &Cell::class_skew, "Each rank sees examples of one class alone.")
          .known(kRuns),
      count("scale", &Cell::scale, "Bytes and link rates of a paced model are divided by it.")
          .known({Memory, Step, Pace})
          .unknown(JobMemory, "a recorded model is not scaled"),
      one_of("dtype", &Cell::dtype, kDtypes,
             "Of parameters as stored, and so of gradients and moments; bfloat16: a Mixtral, a "
             "BERT or mlp.")
          .about_memory()
          .known({Memory, JobMemory})
          .unknown(Step, "a profile's seconds are those of the types that it was recorded in"),
      one_of("autocast", &Cell::autocast, {"none", "bfloat16"},
             "ddp: forward runs under torch.autocast to bfloat16, with parameters and gradients in "
             "float32.")
          .under("ddp")
          .unknown(JobMemory, "record the model under its autocast")
          .unknown(Step, "a profile's seconds are those of the types that it was recorded in")
          .unknown(Pace, paced),
      flag("master_weights", &Cell::master_weights,
           "ddp: AdamW steps float32 copies of parameters that are stored in bfloat16, and rounds "
           "those from them.")
          .under("ddp")
          .known({Memory}),
      flag("balanced_routing", &Cell::balanced_routing,
           "A Mixtral's experts get as many tokens, whatever its router says: memory is then the "
           "same in every step, and can be predicted.")
          .known({Memory}),
  };
}

std::vector<Axis> options_of_fsdp() {
  return {
      one_of("param_dtype", &Cell::param_dtype, kDtypes,
             "fsdp: of gathered parameters and compute; by default as stored.")
          .under("fsdp")
          .about_memory()
          .known(kRuns),
      one_of("reduce_dtype", &Cell::reduce_dtype, kDtypes,
             "fsdp: of gradients on the wire; by default as stored.")
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
           "which then goes; only where a step reduces once.")
          .under("fsdp")
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
      size("memory_budget_bytes", &Cell::memory_budget_bytes, "no budget", "79GiB",
           "What the tensors of a rank may hold, from its first step on; more is oom, as on a full "
           "GPU. 0: no budget.")
          .if_any()
          .about_memory()
          .known(kRuns),
      count("accumulation_steps", &Cell::accumulation_steps, "Micro-batches per step.")
          .about_memory()
          .known(kAll),
      one_of("strategy", &Cell::strategy, names_of(strategies()),
             "Which micro-batches of a step synchronize, and who decides it.")
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
         {work, options_of_ddp, levers_of_units, options_of_fsdp, what_varies_fastest}) {
      for (Axis& axis : rows()) all.push_back(std::move(axis));
    }
    return all;
  }();
  return table;
}

}  // namespace gradsync::plan
