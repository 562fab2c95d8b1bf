// The name and the sentences of each cause.
#include <algorithm>
#include <array>

#include "harness/base/errors.h"
#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {
namespace {

constexpr const char* kDefer = "{defer}";  // as the wrapper that ran is told to
constexpr const char* kLeaveTheLastOut = "leave the last micro-batch of a step out of it";
// Under DDP forward arms the backward that comes next, which in a pipeline is of another.
constexpr const char* kArmTheLast =
    "run every forward under no_sync(), and call reducer.prepare_for_backward() only before the "
    "last backward, as torch.distributed.pipelining does";
constexpr const char* kReduceLast = "reduce them only after the last backward of a step";
constexpr const char* kTrueForTheLast = "call it with True only for the last micro-batch of a step";
constexpr const char* kTrueBeforeTheLast =
    "call it with True before the last micro-batch of a step";

constexpr auto kCauses = std::to_array<CauseWords>({
    {Cause::NoNoSync, "no_no_sync", "no no_sync was entered", kDefer},
    {Cause::NoNoSyncAroundForward, "no_no_sync_around_forward",
     "no no_sync enclosed the forward; the file does not show whether one enclosed backward",
     kDefer},
    {Cause::NoSyncAroundBackward, "no_sync_around_backward",
     "no_sync encloses backward but not forward{at}",
     "enclose the forward too, since the forward decides whether backward synchronizes"},
    {Cause::NoSyncOfAnotherModel, "no_sync_of_another_model",
     "no_sync is entered of another model than the one that runs{at}",
     "enter no_sync of the model that runs"},
    {Cause::NoSyncNotInside, "no_sync_not_inside",
     "no_sync of the outer model does not reach the one inside{at}",
     "enter no_sync of the model inside as well"},
    {Cause::ForwardOutsideNoSync, "forward_outside_no_sync",
     "a forward outside of no_sync makes the next backward synchronize{at}",
     "run it under torch.no_grad(), if nothing runs backward from it, or no_sync()"},
    {Cause::SynchronizesUnderNoSync, "synchronizes_under_no_sync",
     "backward synchronizes although its forward ran under no_sync"},
    {Cause::GradientFlagNotCalled, "gradient_flag_not_called",
     "set_requires_gradient_sync(False) was not called", kDefer},
    {Cause::GradientFlagOn, "gradient_flag_on", "set_requires_gradient_sync(True){at}",
     kTrueForTheLast},
    {Cause::GradientFlagBehindForward, "gradient_flag_behind_forward",
     "set_requires_gradient_sync(False) comes after forward{at}",
     "call it before forward, which decides whether backward synchronizes"},
    {Cause::ShardsSaveMemory, "shards_save_memory",
     "it reduces {how_often}; under no_sync every rank would hold the whole gradient, not its "
     "shard",
     "if memory allows, use set_requires_gradient_sync(False) or no_sync() in every micro-batch "
     "of a step except the last"},
    {Cause::ModelsNotKnown, "models_not_known",
     "which model ran is not known without the Python hook"},

    {Cause::NoSyncAroundForward, "no_sync_around_forward",
     "no_sync encloses forward though not backward, and forward decides{at}", kLeaveTheLastOut,
     kArmTheLast},
    {Cause::NoSyncAroundAll, "no_sync_around_all", "no_sync encloses {which} of a step{at}",
     kLeaveTheLastOut, kArmTheLast},
    {Cause::WrapperFlagOff, "wrapper_flag_off",
     "the wrapper's require_backward_grad_sync is off without a no_sync"},
    {Cause::GradientFlagOff, "gradient_flag_off",
     "set_requires_gradient_sync(False) applies to {which}{at}", kTrueBeforeTheLast},
    {Cause::ArmedEarly, "armed_early",
     "each forward outside of no_sync makes the next backward synchronize, which belongs to an "
     "earlier micro-batch",
     kArmTheLast},
    {Cause::EarlierSynchronizes, "earlier_synchronizes",
     "an earlier micro-batch synchronizes, which does nothing for those after it"},
    {Cause::NoneHadSynchronized, "none_had_synchronized",
     "the optimizer stepped on gradients of which no micro-batch had synchronized"},
    {Cause::WrappersForwardNeverRan, "wrappers_forward_never_ran",
     "the model was wrapped{at}, but the wrapper's forward never ran",
     "call the model that is made here, not its module and not what torch.compile made of that: "
     "only its own forward makes backward synchronize"},
    {Cause::StepsBeforeReduction, "steps_before_reduction",
     "an optimizer steps within backward{at}, before the gradients that it reads are reduced",
     "step after backward, or reduce the gradient before the step"},

    {Cause::NothingReduced, "nothing_reduced",
     "all ranks were given the same parameters, and nothing that could be their gradients is "
     "reduced after backward{at}",
     "reduce the gradients after the last backward of a step, or wrap the model in "
     "DistributedDataParallel"},
    {Cause::ReducedTooEarly, "reduced_too_early",
     "gradients are reduced before the last backward of a step adds to them{at}", kReduceLast},
    {Cause::ReducedBehindEach, "reduced_behind_each",
     "all gradients are reduced after each backward{at}, and the next backward adds to reduced "
     "gradients",
     kReduceLast},
    {Cause::GradientsNotKept, "gradients_not_kept",
     "no `grad` is left when the next backward begins: the job keeps its shard of them, as ZeRO 2 "
     "and 3 must, or all of them elsewhere",
     "if memory allows, reduce only after the last backward of a step"},

    {Cause::AllReduceFlagNotCalled, "all_reduce_flag_not_called",
     "set_requires_all_reduce(False) was not called",
     "call set_requires_all_reduce(False) on the model in every micro-batch of a step except the "
     "last, which needs no more memory",
     "if memory allows, call set_requires_all_reduce(False) on the model in every micro-batch of a "
     "step except the last"},
    {Cause::AllReduceFlagOn, "all_reduce_flag_on", "set_requires_all_reduce(True){at}",
     kTrueForTheLast},
    {Cause::AllReduceFlagUndone, "all_reduce_flag_undone",
     "set_requires_gradient_sync(True) after set_requires_all_reduce(False) undoes it{at}",
     "call it after set_requires_gradient_sync()"},
    {Cause::AllReduceFlagOff, "all_reduce_flag_off",
     "set_requires_all_reduce(False) applies to {which}{at}", kTrueBeforeTheLast},
    {Cause::Fsdp1AllReducesEach, "fsdp1_all_reduces_each",
     "FullyShardedDataParallel all-reduces after each of its reduce-scatters",
     "wrap with fully_shard, which has set_requires_all_reduce(False) for this"},

    {Cause::SearchesUnused, "searches_unused", "find_unused_parameters=True{at}",
     "drop it if every parameter takes part in every micro-batch"},
    {Cause::EachForwardBroadcasts, "each_forward_broadcasts",
     "each forward after a synchronized one broadcasts them"},

    {Cause::InNoWrapper, "in_no_wrapper",
     "it belongs to no wrapped model, and its gradient is never reduced; {given} updates it",
     "wrap the module that has it in DistributedDataParallel, or all-reduce its gradient before "
     "this optimizer steps",
     "shard the module that has it as well (fully_shard of the whole model takes what is left), or "
     "all-reduce its gradient before this optimizer steps"},
    {Cause::AddedBehindWrap, "added_behind_wrap",
     "the model was wrapped{at}, before this was added or unfrozen: the wrapper's list of "
     "parameters is made when it wraps; {given} updates it",
     "wrap the model once all that it is to train is there and requires a gradient"},
    {Cause::WrapperIgnores, "wrapper_ignores",
     "the wrapper ignores it, as the job asked{at}, and its gradient is never reduced; {given} "
     "updates it",
     "let the wrapper have it, or all-reduce its gradient before the optimizer steps"},
    {Cause::GroupOfOne, "group_of_one",
     "each rank trains by itself: the wrapper reduces in a group of this rank alone{at}",
     "wrap it over a group of all ranks that hold the same parameters"},
    {Cause::DriftsThoughReduced, "drifts_though_reduced",
     "the wrapper has it{at}, but {given} updates it by something other than the gradient that the "
     "wrapper reduces"},
    {Cause::DriftsThoughExchanged, "drifts_though_exchanged",
     "the job exchanges it or its gradient by hand, and yet ranks have other values after it"},
    {Cause::SteppedBySome, "stepped_by_some",
     "the job all-reduces its gradient by hand, but only some ranks step it ({given}), and the "
     "others do not receive the new values",
     "after this optimizer steps, broadcast each parameter from the rank that steps it"},
    {Cause::BeganApart, "began_apart",
     "ranks read one gradient, which the job all-reduces by hand, and apply it to different "
     "parameters; {given} updates them",
     "seed all ranks alike where the model is made, or broadcast its parameters from rank 0"},
    {Cause::MarkedAsReplica, "marked_as_replica",
     "the job marks it with `{given}`, as a replica whose gradient ranks are to sum, and it is not "
     "summed",
     "before this optimizer steps, all-reduce the gradients of all parameters with that mark"},
    {Cause::HookNeverReduces, "hook_never_reduces",
     "it has a hook with a reduction in its code{at}, which never reduces",
     "let the hook reduce in the last backward of each step"},
    {Cause::HookOnACopy, "hook_on_a_copy",
     "the hook that would reduce its gradient is on a copy of it{at}, which no backward reaches",
     "register the hook on the parameter that the optimizer has"},
    {Cause::ChangedInNoOptimizer, "changed_in_no_optimizer",
     "the model was wrapped{at}, which made it equal on all ranks; no optimizer has it, and each "
     "rank changes it by itself, while the wrapper keeps the other parameters equal",
     "average over ranks what changes it, or have the wrapper ignore it if each rank is to have "
     "its own"},
    {Cause::EqualBefore, "equal_before",
     "ranks all have the same gradients when this {given} begins{at}: the wrapper has reduced them",
     "drop it, and what divides its result"},

    {Cause::ModelsTakeTurns, "models_take_turns",
     "forwards and backwards of several models take turns, as those of a pipeline's stages do: "
     "which model a backward is of is not known"},
    {Cause::ReplayedBeside, "replayed_beside",
     "a forward and its backward run within the backward of another forward{at}: how often each "
     "model synchronizes is not known"},
    {Cause::ProcessesWithoutGroup, "processes_without_group",
     "it has no process group of torch's c10d, and is one of several processes for all that "
     "({given}): what they exchange passes by the watcher"},
    {Cause::NcclWithoutSteps, "nccl_without_steps",
     "no optimizer step was seen; NCCL itself was called for {given}"},
    {Cause::RepeatsClosure, "repeats_closure",
     "the optimizer runs forward and backward by itself, as LBFGS does: each run needs its "
     "gradients"},
    {Cause::NoCollective, "no_collective",
     "no collective was seen, not even those that wrap a model: they pass by torch's c10d?"},
    {Cause::CommHook, "comm_hook",
     "no backward synchronizes through torch's c10d, but the model has a communication hook{at}, "
     "which may reduce by itself"},
    {Cause::AveragedByHand, "averaged_by_hand",
     "no backward synchronizes, but ranks exchange data outside of it: parameters or gradients "
     "averaged by hand?"},
    {Cause::LastAveragedByHand, "last_averaged_by_hand",
     "no backward synchronizes what the last micro-batches add, but ranks exchange data outside "
     "of it: gradients averaged by hand?"},
    {Cause::SomeAveragedByHand, "some_averaged_by_hand",
     "not every step synchronizes in backward, but ranks exchange data outside of it: parameters "
     "averaged by hand?"},
    {Cause::UnwrappedAveragedByHand, "unwrapped_averaged_by_hand",
     "no wrapped model ran forward, but ranks exchange data outside of backward: gradients "
     "averaged by hand?"},
    {Cause::ReducesAlone, "reduces_alone",
     "backward reduces in a process group of this rank alone: ranks that are meant to train "
     "apart?"},
    {Cause::TrainApart, "train_apart",
     "no step ran a wrapped model, and nothing that could be gradients was exchanged: ranks that "
     "are meant to train apart?"},
    {Cause::LeftBehind, "left_behind",
     "a backward comes after the one that synchronizes{at}, and DDP reduces nothing of it: ranks "
     "drift, unless its gradients are of another model"},
    {Cause::UnknownWrapper, "unknown_wrapper",
     "no model of a wrapper that is known here ran forward, but collectives ran in backward: "
     "another wrapper, or parallel layers?"},
    {Cause::SharedMicroBatches, "shared_micro_batches",
     "models share micro-batches: each synchronization is the last one of one of them"},
    {Cause::OptimizerNotKnown, "optimizer_not_known",
     "it is not known when its own optimizer steps"},
    {Cause::GradientsRead, "gradients_read",
     "gradients are read between the micro-batches of a step{at}: what is read may need a "
     "synchronization of its own"},
    {Cause::ParametersChanged, "parameters_changed",
     "parameters are changed between the micro-batches of a step{at}, so each may need a "
     "synchronization of its own"},
    {Cause::GradientsCleared, "gradients_cleared",
     "gradients are cleared between the micro-batches of a step{at}, so they do not add up: each "
     "may need a synchronization of its own"},
    {Cause::GradientsChangedByHand, "gradients_changed_by_hand",
     "gradients are changed by hand between the micro-batches of a step{at}, so they do not add "
     "up: each may need a synchronization of its own"},

    {Cause::RanksDisagree, "ranks_disagree", "ranks do not agree: {given}"},
    {Cause::AccountDisagrees, "account_disagrees",
     "counts and account do not agree: by its collectives the job is never synchronized ({given}), "
     "but every rank reads what the micro-batches of all ranks add"},

    {Cause::NoTorch, "no_torch", "no process that uses torch was seen"},

    {Cause::WorldSizeNotTold, "world_size_not_told",
     "how many ranks the job has: torch.profiler writes that where it begins after "
     "init_process_group(); trace it so, into a file of each rank"},
    {Cause::OptimizerNotTold, "optimizer_not_told", "where an optimizer steps"},
    {Cause::BackwardNotTold, "backward_not_told", "where backward runs"},
    {Cause::WholeStepNotTold, "whole_step_not_told",
     "a whole step, from one optimizer's to the next"},
    {Cause::GroupsNotTold, "groups_not_told", "in which process group each collective ran"},
    {Cause::OrderNotTold, "order_not_told",
     "which forward a backward answers, of those that ran ahead of it"},
    {Cause::TimesNotTold, "times_not_told", "when, or on which thread, some of its ranges ran"},
    {Cause::CudaGraphsNotTold, "cuda_graphs_not_told",
     "what its CUDA graphs communicate: trace a run without graphs, or run the job under gradsync "
     "watch, which counts the collectives that they replay"},
    {Cause::HookNotTold, "hook_not_told",
     "whether the model's communication hook reduces over all ranks, which exchange data outside "
     "of backward, too"},
    {Cause::OneModelNotTold, "one_model_not_told",
     "whether it is one model that synchronizes {how_often}"},
    {Cause::OneModelOfStepsNotTold, "one_model_of_steps_not_told",
     "whether steps that synchronize once and more often are one model's"},
    {Cause::WhyNeverNotTold, "why_never_not_told",
     "why no backward synchronizes: whether synchronization was switched off, or a "
     "communication hook reduces by itself"},
    {Cause::WhyNotTheLastNotTold, "why_not_the_last_not_told",
     "why the last micro-batches do not synchronize: whether synchronization was switched off"},
    {Cause::ModelNotTold, "model_not_told",
     "which model ran forward: collectives ran in backward, by a wrapper without a range of its "
     "own, parallel layers or the job itself"},
    {Cause::WrapNotTold, "wrap_not_told",
     "whether a model is wrapped whose wrapper's forward never ran"},
    {Cause::BetweenNotTold, "between_not_told",
     "whether gradients are read or cleared, or parameters changed, between the micro-batches of "
     "a step{given}"},
});

}  // namespace

std::span<const CauseWords> all_cause_words() {
  return kCauses;
}

const CauseWords& words_of(Cause cause) {
  const auto found = std::ranges::find(kCauses, cause, &CauseWords::cause);
  if (found == kCauses.end()) throw InternalError("a cause without words");
  return *found;
}

std::string to_string(Cause cause) {
  return words_of(cause).name;
}

std::optional<Cause> cause_named(std::string_view name) {
  const auto found = std::ranges::find(
      kCauses, name, [](const CauseWords& words) { return std::string_view(words.name); });
  return found == kCauses.end() ? std::nullopt : std::optional(found->cause);
}

}  // namespace gradsync::watch
