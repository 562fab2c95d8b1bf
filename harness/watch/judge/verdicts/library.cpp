#include "harness/watch/judge/verdicts/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/account/account_words.h"
#include "harness/watch/judge/steps/nesting.h"

namespace gradsync::watch {
namespace {

constexpr const char* kUnknown = "if {library} has no option for it, {what}";
constexpr const char* kNone = "{library} has no option for it; in its code, {what}";

struct Option {
  std::string_view library;
  Knob knob;
  const char* how;  // {what}: what a job's own loop would do
};

// Read in the sources of composer 0.32.1, deepspeed 0.19.8, fastai 2.8.12, ignite 0.5.5,
// MONAI 1.6.1, open_clip 3.3.0 and ultralytics 8.4.190; those of lightning 2.6.6 and
// transformers 5.23.0 were run, too.
constexpr auto kOptions = std::to_array<Option>({
    {"accelerate", Knob::UnusedParameters,
     "{what}: pass DistributedDataParallelKwargs(find_unused_parameters=False) to Accelerator(), "
     "or ddp_find_unused_parameters=False to TrainingArguments() if the job uses transformers"},
    {"accelerate", Knob::Buckets,
     "{what}, in a DistributedDataParallelKwargs() that is passed to Accelerator(), or in "
     "TrainingArguments() as ddp_bucket_cap_mb if the job uses transformers"},
    {"composer", Knob::Accumulation, "pass ddp_sync_strategy=\"single_auto_sync\" to Trainer()"},
    {"deepspeed", Knob::Accumulation,
     "set \"stage\": 1 in \"zero_optimization\" of its configuration, if memory allows"},
    {"fastai", Knob::Accumulation, kNone},
    {"ignite", Knob::Accumulation, kNone},
    {"lightning", Knob::Accumulation,
     "run every backward of a step except the last within trainer.strategy.block_backward_sync()"},
    {"lightning", Knob::UnusedParameters,
     "{what}: pass strategy=\"ddp\" to Trainer(), not \"ddp_find_unused_parameters_true\""},
    {"lightning", Knob::Buckets, "{what}, in a DDPStrategy() that is passed to Trainer()"},
    {"monai", Knob::Accumulation, kNone},
    {"open_clip_train", Knob::Accumulation, kNone},
    {"transformers", Knob::UnusedParameters,
     "{what}: pass ddp_find_unused_parameters=False to TrainingArguments()"},
    {"transformers", Knob::Buckets, "{what}, in TrainingArguments() as ddp_bucket_cap_mb"},
    {"ultralytics", Knob::Accumulation, kNone},
});

// What helps a loop of the job's own.
constexpr std::string_view kHelper = "accelerate";

std::string_view library_of(const Event& called) {
  std::string_view name = called.inside;
  name = name.substr(0, name.find('/'));
  return name == "pytorch_lightning" ? "lightning" : name;
}

bool is_called_alike(const Event& a, const Event& b) {
  return a.file == b.file && a.line == b.line;
}

}  // namespace

const Event* call_of_library(const MicroBatch& micro_batch) {
  const Event& backward = *micro_batch.backwards.front();
  if (micro_batch.is_by_bytes) return backward.inside.empty() ? nullptr : &backward;
  if (micro_batch.forwards.empty() || micro_batch.forwards.front()->inside.empty()) return nullptr;
  const Event& forward = *micro_batch.forwards.front();
  const bool is_its_loop = is_called_alike(forward, backward) || contains(forward, backward);
  return is_its_loop ? &forward : nullptr;
}

void say_library(Change& change, const Event& called, Knob knob) {
  if (called.inside.empty()) return;
  const std::string_view library = library_of(called);
  const auto known = std::ranges::find_if(kOptions, [&](const Option& option) {
    return option.library == library && option.knob == knob;
  });
  if (known == kOptions.end() && library == kHelper) return;
  change.inside = account::library_text(called.inside, called.inside_line);
  const char* how = known == kOptions.end() ? kUnknown : known->how;
  change.what =
      fmt::format(fmt::runtime(how), fmt::arg("library", library), fmt::arg("what", change.what));
}

}  // namespace gradsync::watch
