// What a trace of torch.profiler's says, as its file has it: the JSON of Chrome's traces that
// Kineto writes, one file for each rank.
//
// It keeps ranges of the host's threads: operators, ranges that are named (user annotations), and
// Python's functions of models and of backward. It also keeps the work of GPUs (kernels, copies and
// memsets), with the calls of CUDA or HIP that launched it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/watch/read/gpu_work.h"
#include "harness/watch/read/group.h"

namespace gradsync::watch {

inline constexpr double kMostMicroseconds = 4e15;  // in nanoseconds they fit into 64 bits

// Returns microseconds of a trace, 0 to kMostMicroseconds, to the nanosecond. Those of a clock that
// began in 1970 have as many digits as a double has: its thousandfold has too many.
std::int64_t exact_nanoseconds(double microseconds);

// Returns a field of an object; null where it is absent, or `object` is none.
const nlohmann::json& value_at(const nlohmann::json& object, const char* field);

// An input of an operator: its sizes and its type, as the profiler has them ("float").
struct TracedTensor {
  std::vector<std::int64_t> sizes;
  std::string type;  // empty: not told
};

// By argument; a list of tensors is one argument, and what is no tensor has none.
using TracedInputs = std::vector<std::vector<TracedTensor>>;

// What the profiler says of a collective itself (record_param_comms).
struct TracedComm {
  std::int64_t in_elements = -1;  // -1: not told
  std::int64_t out_elements = -1;
  std::string type;    // "Float"
  std::string group;   // torch's name; empty: not told
  int group_size = 0;  // 0: not told
};

enum class TracedKind { Operator, Annotation, PythonFunction };

struct TracedRange {
  TracedKind kind = TracedKind::Operator;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t thread = 0;
  std::string_view name;
  const TracedInputs* inputs = nullptr;  // null: not told
  const TracedComm* comm = nullptr;      // of record_param_comms alone

  bool contains(const TracedRange& inner) const {
    return thread == inner.thread && start_ns <= inner.start_ns && inner.end_ns <= end_ns;
  }
};

enum class TracedWorkKind { Nccl, OtherKernel, Memory };

// What a GPU ran.
struct TracedWork {
  TracedWorkKind kind = TracedWorkKind::OtherKernel;
  std::int64_t device = 0;
  std::optional<std::int64_t> correlation;  // with its launch; absent: not told
  std::optional<std::int64_t> stream;       // absent: not told
  std::optional<GpuSpan> ran;               // absent: it is not told when
  std::string_view name;                    // of a kernel of NCCL's alone
};

// A call of the runtime or the driver.
struct TracedLaunch {
  bool is_of_graph = false;
  std::optional<std::int64_t> correlation;
  bool waits_for_gpu = false;  // it returns when the GPU has done something
  std::int64_t at_ns = 0;
  std::int64_t end_ns = 0;  // at_ns: not told
  std::int64_t thread = 0;
};

struct TraceFile {
  std::int64_t pid = 0;
  int rank = -1;       // -1: not told
  int world_size = 0;  // 0: not told
  std::vector<Group> groups;
  bool has_shapes = false;          // record_shapes=True
  bool has_python = false;          // with_stack=True
  bool has_unknown_ranges = false;  // left out: it is not told when, or on which thread, they ran
  bool is_on_paper = false;         // made on GPUs of paper: its times mean nothing
  std::vector<TracedRange> ranges;  // by start; of those that begin together the longest first
  std::vector<TracedWork> work;     // in the order of the file
  std::vector<TracedLaunch> launches;      // the same
  std::optional<std::int64_t> first_step;  // that a schedule of the profiler's recorded

  // What ranges point to.
  std::deque<std::string> names;
  std::deque<TracedInputs> inputs;
  std::deque<TracedComm> comms;
};

// Returns whether `text` begins as such a trace does, as far as its first kilobytes tell.
bool is_trace(std::string_view text);

// Returns what the trace `text` of the file named `name` says.
// Where a number is null, it is not known.
// Errors: ConfigError with name, field, got and expected where it is no JSON, is cut off, or a
// field that is used has another type or is out of range.
TraceFile parse_trace(std::string_view text, const std::string& name);

}  // namespace gradsync::watch
