// What was seen that explains a verdict, one by one. Names and sentences: verdict_words.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gradsync::watch {

enum class Cause {
  None,
  // DDP and replicate() synchronize more often than once:
  NoNoSync,
  NoNoSyncAroundForward,  // of a trace, which shows no more
  NoSyncAroundBackward,   // alone: forward decides
  NoSyncOfAnotherModel,
  NoSyncNotInside,       // it is the outer model's; the one inside synchronizes
  ForwardOutsideNoSync,  // arms the backward that comes next, whichever that is of
  SynchronizesUnderNoSync,
  GradientFlagNotCalled,  // set_requires_gradient_sync(False)
  GradientFlagOn,
  GradientFlagBehindForward,
  ShardsSaveMemory,  // FSDP's: by choice or mistake
  ModelsNotKnown,    // they may be several models'
  // Gradients that no micro-batch synchronizes:
  NoSyncAroundForward,  // alone
  NoSyncAroundAll,      // every micro-batch, or the last one
  WrapperFlagOff,       // require_backward_grad_sync, without a no_sync
  GradientFlagOff,
  ArmedEarly,  // a pipeline's forward armed the backward of an earlier micro-batch
  EarlierSynchronizes,
  NoneHadSynchronized,
  WrappersForwardNeverRan,
  StepsBeforeReduction,  // an optimizer within backward
  // Without a known wrapper, by bytes:
  NothingReduced,
  ReducedTooEarly,
  ReducedBehindEach,
  GradientsNotKept,  // between micro-batches
  // Replicas of shards:
  AllReduceFlagNotCalled,  // set_requires_all_reduce(False)
  AllReduceFlagOn,
  AllReduceFlagUndone,  // by set_requires_gradient_sync(True) behind it
  AllReduceFlagOff,
  Fsdp1AllReducesEach,
  // Beside another verdict:
  SearchesUnused,
  EachForwardBroadcasts,
  // Replicas drift:
  InNoWrapper,
  AddedBehindWrap,
  WrapperIgnores,
  GroupOfOne,
  DriftsThoughReduced,
  DriftsThoughExchanged,
  SteppedBySome,     // of the ranks, which do not send it to the others
  BeganApart,        // though gradients are reduced by hand
  MarkedAsReplica,   // by an attribute of the parameter
  HookNeverReduces,  // though it has a reduction in its code
  HookOnACopy,       // of the parameter
  ChangedInNoOptimizer,
  // Gradients are reduced twice:
  EqualBefore,
  // Not recognised:
  ModelsTakeTurns,
  ReplayedBeside,  // within the backward of other forwards
  ProcessesWithoutGroup,
  NcclWithoutSteps,
  RepeatsClosure,
  NoCollective,
  CommHook,
  AveragedByHand,
  LastAveragedByHand,  // what the last micro-batches add
  SomeAveragedByHand,  // in steps without a synchronization
  UnwrappedAveragedByHand,
  ReducesAlone,  // in a group of this rank
  TrainApart,
  LeftBehind,  // a backward, by the one that synchronizes
  UnknownWrapper,
  SharedMicroBatches,
  OptimizerNotKnown,  // a model's own
  GradientsRead,      // between micro-batches, and so on
  ParametersChanged,
  GradientsCleared,
  GradientsChangedByHand,
  RanksDisagree,
  AccountDisagrees,
  // No steps:
  NoTorch,
  // Not in a file that others wrote:
  WorldSizeNotTold,
  OptimizerNotTold,
  BackwardNotTold,
  WholeStepNotTold,
  GroupsNotTold,
  OrderNotTold,
  TimesNotTold,
  CudaGraphsNotTold,
  HookNotTold,
  OneModelNotTold,
  OneModelOfStepsNotTold,
  WhyNeverNotTold,
  WhyNotTheLastNotTold,
  ModelNotTold,
  WrapNotTold,
  BetweenNotTold,
};

std::string to_string(Cause cause);                       // "no_sync_around_backward"; not of None
std::optional<Cause> cause_named(std::string_view name);  // nothing: there is no such cause

}  // namespace gradsync::watch
