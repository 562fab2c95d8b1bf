// The memory of a PyTorch model in a micro-batch, as models/record_profile.py recorded it: its
// tensors, its modules, and the tensors that are made and freed between the marks at which a
// wrapper acts.
//
// Between two marks only two numbers count, how far the memory rose and where it ended: a wrapper
// gathers, reduces and frees only at marks. So the size of a pass depends only on the number of its
// modules, and every peak is still the recorded one. No torch. The format: profiles/README.md.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gradsync::models {

struct RecordedParameter {
  std::string name;                 // the first of a tied one
  std::vector<std::int64_t> shape;  // empty: a scalar
  bool trains = true;

  std::int64_t elements() const;
};

struct RecordedModule {
  std::string name;  // "": the model
  std::string type;  // its class
  // Bytes of one call; the largest of several calls. Saved for backward while no listed submodule
  // ran: each storage once, without parameters, buffers and the batch.
  std::int64_t saved_bytes = 0;
  std::int64_t output_bytes = 0;
  std::int64_t forward_high_bytes = 0;  // above what was held when it began
  std::int64_t backward_high_bytes = 0;
};

struct PassEvent {
  enum class Kind {
    Hold,     // memory rose by `high` at most and then stood `net` higher, or lower, than before
    Enter,    // a module begins; in backward: a gradient of its output came
    Leave,    // it ends; in backward: the gradients of its inputs are there
    Gradient  // a parameter's gradient is complete; `net`: bytes of the tensor that stays
  };
  Kind kind = Kind::Hold;
  std::size_t index = 0;  // of the module or parameter; of Hold: of the profile's changes
  std::int64_t high = 0;
  std::int64_t net = 0;
  std::size_t age = 0;  // of a gradient's tensor, as below
};

// A tensor of the model's that is made, or freed.
struct BlockChange {
  std::int64_t bytes = 0;
  bool is_made = true;
  std::size_t age = 0;  // of one that is freed: how many of its size are younger
};

struct MemoryProfile {
  bool is_fake = false;    // recorded of operators' results alone, without kernels' temporaries
  bool is_of_gpu = false;  // recorded on a GPU
  std::string dtype;       // of parameters and compute
  std::int64_t batch_bytes = 0;
  std::vector<std::int64_t> buffer_bytes;
  std::vector<RecordedParameter> parameters;  // in registration order, each once
  std::vector<RecordedModule> modules;        // in registration order; those with parameters
  std::vector<std::string> units;             // names or classes that fully_shard is given
  std::vector<PassEvent> forward;
  std::vector<PassEvent> backward_first;  // gradients are made
  std::vector<PassEvent> backward_later;  // and added to
  // What happens between two marks, tensor by tensor. A gradient that was made leaves the model's
  // tensors with its event. Empty: the recording has sums alone.
  std::vector<std::vector<BlockChange>> changes;
  std::vector<std::int64_t> batch_tensors_bytes;  // where there are changes
};

// Returns the profile's field "memory", `value`. Errors: ConfigError with file, field, got,
// expected.
MemoryProfile read_memory_profile(const nlohmann::json& value, const std::string& file);

// Returns the indices of the modules that `names` means, in the order of modules: a module by its
// name or its class. Errors: ConfigError naming a name that no module has.
std::vector<std::size_t> modules_named(const MemoryProfile& profile,
                                       const std::vector<std::string>& names);

}  // namespace gradsync::models
