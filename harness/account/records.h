// What a rank of a job records for the account: sketches of what each of its micro-batches adds to
// the gradients of its parameters, and of what the optimizer then reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/account/sketch.h"

namespace gradsync::account {

// What one backward added to a parameter's gradient.
struct Contribution {
  int micro_batch = 0;    // of its step, from 0
  bool is_older = false;  // of before another optimizer's step, which need not have kept it
  Sketch sketch{};
};

// A parameter, or this rank's shard of one, when its optimizer read the gradient.
struct ParameterRecord {
  std::int64_t step = 0;  // steps of the process so far: the same on ranks that step together
  int optimizer = 0;      // in the order of their first steps
  int index = 0;          // in its optimizer
  std::string name;
  std::string dtype;          // of the gradient
  std::int64_t elements = 0;  // of the whole parameter
  std::int64_t offset = 0;    // of this rank's shard in it
  std::int64_t length = 0;
  Sketch gradient{};
  Sketch value{};  // of the parameter itself, before the step
  std::vector<Contribution> contributions;
};

// What the job called on gradients.
enum class GradientCallKind {
  ZeroGrad,
  ClipNorm,     // torch's clip_grad_norm_
  ClipValue,    // torch's clip_grad_value_
  ClipOwnNorm,  // a sharded model's own clip_grad_norm_
  SetToZero,    // by the job itself, in place
};

constexpr bool clears(GradientCallKind what) {
  return what == GradientCallKind::ZeroGrad || what == GradientCallKind::SetToZero;
}

struct GradientCall {
  GradientCallKind what = GradientCallKind::ZeroGrad;
  int after = 0;     // so many micro-batches of its step
  std::string file;  // of the job; "": not known
  int line = 0;
  std::string inside = {};  // of the library that calls it, "skorch/net.py"; "": the job itself
  int inside_line = 0;
  auto operator<=>(const GradientCall&) const = default;
};

struct AccountedStep {
  std::int64_t step = 0;
  int optimizer = 0;
  int micro_batches = 0;  // not counting older ones
  double loss_scale = 1;  // a gradient scaler's
  int clippings = 0;      // calls that clip
  // The one clipping of a step, behind its micro-batches; 0: not known, or there is none.
  double max_norm = 0;      // that the clipping was given
  double clipped_by = 0;    // the factor by which it changed gradients
  double scaled_after = 0;  // that by which they were changed between it and the optimizer
  // The job multiplies the loss of each micro-batch by this, where that is a mean of torch's own.
  // 0: not known.
  std::vector<double> loss_weights;
  bool is_used = false;   // gradients were read, or parameters changed, between its micro-batches
  std::string comm_hook;  // that DDP has, with the type of its state; "": none
  // The tokens of each micro-batch that count in its loss; 0: not known, the loss is none of
  // torch's own.
  std::vector<std::int64_t> tokens;
  // From where each micro-batch ran backward, by the lines that led there and by the functions that
  // these are in: equal numbers are one place. Empty: not known.
  std::vector<int> places;
  std::vector<int> functions;
  std::vector<GradientCall> calls;  // in their order, each that differs from the others
  bool is_wrapped = false;          // a model under DDP or FSDP ran in this process
};

// One process. An empty list of steps: it took none that is accounted.
struct AccountRecords {
  std::int64_t pid = 0;
  int rank = -1;  // -1: without a group
  int world_size = 0;
  std::vector<AccountedStep> steps;
  std::vector<ParameterRecord> parameters;
  std::vector<std::string> faults;
};

}  // namespace gradsync::account
