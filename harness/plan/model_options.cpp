// Rows of the table of axes: what trades memory for time, and which parameters are trained.
#include "harness/plan/axis_kinds.h"

namespace gradsync::plan {

// NOLINTNEXTLINE(readability-function-size): a row for each option
std::vector<Axis> options_of_models() {
  using enum Prediction;
  using Model = models::ModelDescription;
  const std::string paced = "a paced model takes the time of what its profile was recorded in";
  return {
      every_nth("activation_checkpointing", &Cell::activation_checkpointing,
                "Units of the model that keep no activations and run again in backward: none, all "
                "of them, or every second, third, ...")
          .needs(&Model::checkpointing)
          .lever()
          .about_memory()
          .known({Memory, Pace})
          .unknown(JobMemory, "record the model with its activation checkpointing")
          .unknown(Step, "units run again in backward"),
      one_of("selective_checkpointing", &Cell::selective_checkpointing,
             {"none", "attention", "matmul"},
             "Outputs that checkpointed units keep instead of computing them again: none, those of "
             "attention, or those of attention and of every matrix product; none where no unit is "
             "checkpointed.")
          .clash([](const Cell& cell) { return cell.activation_checkpointing == 0; },
                 "none where activation_checkpointing is none: nothing runs again")
          .lever()
          .about_memory()
          .known({Memory})
          .unknown(Pace, "a paced layer that runs again takes the time of its whole forward"),
      count_from_zero(
          "frozen_units", &Cell::frozen_units,
          "Number of units that are not trained, from the first on, with all parameters that "
          "come before them.")
          .needs(&Model::freezing)
          .clash([](const Cell& cell) { return cell.lora_rank > 0; },
                 "0 where lora_rank is {lora_rank}: the weights of every unit are frozen then")
          .clash([](const Cell& cell) { return cell.wrapper == "pipeline"; },
                 "0 under wrapper pipeline, whose stages all send gradients back")
          .known({Memory})
          .unknown(JobMemory, "record the model with what it freezes")
          .unknown(Step, "what a frozen unit spares is not in a profile"),
      count_from_zero("lora_rank", &Cell::lora_rank,
                      "Rank of a BERT's low-rank updates. They and the classifier are trained, all "
                      "weights are frozen, as by peft. 0: no updates, the weights are trained.")
          .needs(&Model::low_rank_updates)
          .known({Memory})
          .unknown(JobMemory, "record the model with its low-rank updates")
          .unknown(Step, "what low-rank updates take is not in a profile"),
      one_of("lora_modules", &Cell::lora_modules, {"query_value", "attention", "all_linear"},
             "Linear layers that get low-rank updates: queries and values, peft's default for a "
             "BERT; also keys and attention's output; or all but the classifier, as peft's "
             "all-linear. query_value where lora_rank is 0.")
          .clash([](const Cell& cell) { return cell.lora_rank == 0; },
                 "query_value where lora_rank is 0: there are no updates")
          .known({Memory}),
      one_of("attention", &Cell::attention, {"eager", "sdpa"},
             "Attention of a BERT. eager: spelled out, the default. sdpa: torch's "
             "scaled_dot_product_attention, transformers' default.")
          .needs(&Model::attention)
          .lever()
          .known({Memory})
          .unknown(JobMemory, "record the model with its attention")
          .unknown(Step, "what sdpa takes is not in a profile"),
      one_of(
          "offload", &Cell::offload, {"none", "optimizer_state", "parameters"},
          "What lives on the host: the optimizer's state, with a copy of what it steps, or, under "
          "fsdp, parameters with their gradients and state, as fully_shard's CPUOffloadPolicy.")
          .clash([](const Cell& cell) { return cell.wrapper != "ddp" && cell.wrapper != "fsdp"; },
                 "\"none\" under wrapper {wrapper}")
          .clash(
              [](const Cell& cell) {
                return cell.offload == "parameters" && cell.wrapper != "fsdp";
              },
              "\"none\" or \"optimizer_state\" under wrapper {wrapper}, whose parameters are all "
              "in use all the time")
          .lever()
          .about_memory()
          .known({Memory})
          .unknown(Step, "copies to the host and back are not in a profile")
          .unknown(Pace, "what copies to the host and back take is not in a profile"),
      flag("fused_optimizer", &Cell::fused_optimizer,
           "false: AdamW steps parameter by parameter, as torch's own in C++.")
          .about_way()
          .unknown(Memory, "memory is predicted for the fused optimizer only")
          .unknown(JobMemory, "memory is predicted for the fused optimizer only")
          .unknown(Pace, "a paced model has its optimizer's time in its profile"),
      flag("broadcast_buffers", &Cell::broadcast_buffers,
           "ddp: rank 0's buffers go to all before a forward that follows a synchronization.")
          .under("ddp")
          .known({Memory, JobMemory, Step, Pace}),
      flag("sync_batch_norm", &Cell::sync_batch_norm,
           "ddp: batch normalization with the statistics of all ranks, which communicate in every "
           "micro-batch.")
          .clash([](const Cell& cell) { return cell.wrapper != "ddp"; },
                 "false under wrapper {wrapper}")
          .unknown(Step, "the collectives of SyncBatchNorm are not in a profile"),
      flag("class_skew", &Cell::class_skew, "Each rank sees examples of one class alone.")
          .known({Memory, JobMemory, Step, Pace}),
      count("scale", &Cell::scale, "Bytes and link rates of a paced model are divided by it.")
          .work()
          .needs(&Model::scaling)
          .known({Memory, Step, Pace})
          .unknown(JobMemory, "a recorded model is not scaled"),
      one_of("dtype", &Cell::dtype, {"float32", "bfloat16"},
             "Type of stored parameters, and so of gradients and moments; bfloat16: a Mixtral, a "
             "BERT or mlp.")
          .needs(&Model::bfloat16)
          .clash([](const Cell& cell) { return cell.wrapper == "pipeline"; },
                 "float32 under wrapper pipeline, whose stages send float32")
          .about_memory()
          .known({Memory, JobMemory})
          .unknown(Step, "a profile's seconds are those of the types that it was recorded in"),
      one_of("autocast", &Cell::autocast, {"none", "bfloat16"},
             "ddp: forward runs under torch.autocast to bfloat16, with parameters and gradients in "
             "float32.")
          .under("ddp")
          .clash([](const Cell& cell) { return cell.dtype != "float32"; },
                 "none where dtype is bfloat16: there is nothing to cast")
          .unknown(JobMemory, "record the model under its autocast")
          .unknown(Step, "a profile's seconds are those of the types that it was recorded in")
          .unknown(Pace, paced),
      flag("master_weights", &Cell::master_weights,
           "ddp: AdamW steps float32 copies of parameters that are stored in bfloat16, then rounds "
           "them into the parameters.")
          .under("ddp")
          .clash([](const Cell& cell) { return cell.dtype == "float32"; },
                 "false where dtype is float32: parameters are their own masters")
          .clash([](const Cell& cell) { return !cell.fused_optimizer; },
                 "false where fused_optimizer is false")
          .known({Memory}),
      flag("balanced_routing", &Cell::balanced_routing,
           "A Mixtral's experts get equally many tokens, whatever its router says: memory is then "
           "the same in every step, and can be predicted.")
          .needs(&Model::routing)
          .known({Memory}),
  };
}

}  // namespace gradsync::plan
