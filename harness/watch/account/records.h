// What the Python hook recorded for the account: account-PID.jsonl of each process, beside its
// events. A file begins with
//
//   {"kind": "start", "schema": "gradsync.watch_account/1", "pid": 4711, "buckets": 64, "every":
//   10,
//    "share": 1.0}
//   {"kind": "rank", "rank": 0, "world_size": 2}
//
// and has, for each accounted step of an optimizer, one "parameter" line for each of its parameters
// that were sampled and then a "step" line: fields of the structs below, each sketch a list of 64
// numbers. Files of before there were any have neither a comm_hook nor tokens.
// {"kind": "fault", "sentence": "..."} says what could not be recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/watch/account/sketch.h"

namespace gradsync::watch {

inline constexpr const char* kAccountSchema = "gradsync.watch_account/1";
inline constexpr const char* kAccountFilePrefix = "account-";  // then the process id
inline constexpr const char* kAccountFileSuffix = ".jsonl";

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

struct AccountedStep {
  std::int64_t step = 0;
  int optimizer = 0;
  int micro_batches = 0;  // not counting older ones
  double loss_scale = 1;  // a gradient scaler's
  int clippings = 0;      // calls of clip_grad_norm_
  bool is_used = false;   // gradients were read, or parameters changed, between its micro-batches
  std::string comm_hook;  // that DDP has, with the type of its state; "": none
  // Of each micro-batch that count in its loss; 0: not known, the loss is none of torch's own.
  std::vector<std::int64_t> tokens;
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

// Returns what a file named `name` says. A last line that is cut off is passed over: its process
// was killed.   Errors: ConfigError with name and line for what is no such line.
AccountRecords parse_account(std::string_view text, const std::string& name);

// Returns those of the files in `directory`; of several with one rank the one with most steps. A
// file that cannot be used is a process with a fault and nothing else.
std::vector<AccountRecords> read_accounts(const std::string& directory);

}  // namespace gradsync::watch
