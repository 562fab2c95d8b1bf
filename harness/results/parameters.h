// The parameters of a cell as a results file has them: by name, each a text, a number or a flag.
//
// They are kept as they were written, since results outlive their plans: a value that today's plans
// may not have stays as it is. A value that was not written is absent, which is not the same as its
// default (a cell without "micro_batch_size" does not say). The named accessors return what cells
// meant before the parameter existed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::results {

class Parameters {
 public:
  Parameters() = default;
  // `written`: the object of a record.
  Parameters(nlohmann::json written) : written_(std::move(written)) {}
  // Returns the parameters of the one row of a gate of training commands.
  static Parameters of_a_job() { return nlohmann::json{{"job", "optimizer step"}}; }

  std::string job() const { return text("job", ""); }  // a training command's; "": a plan's cell
  std::string topology() const { return text("topology", ""); }
  std::string model() const { return text("model", ""); }
  std::string wrapper() const { return text("wrapper", ""); }
  std::string strategy() const { return text("strategy", ""); }
  std::string lengths() const { return text("lengths", ""); }
  std::string compression() const { return text("compression", "none"); }
  std::string dtype() const { return text("dtype", "float32"); }
  std::string param_dtype() const { return text("param_dtype", dtype()); }
  std::string reduce_dtype() const { return text("reduce_dtype", dtype()); }
  int accumulation_steps() const { return integer("accumulation_steps", 1); }
  int micro_batch_size() const { return integer("micro_batch_size", 0); }  // 0: not said
  int sequence_length() const { return integer("sequence_length", 0); }    // 0: not said
  int scale() const { return integer("scale", 1); }
  bool sync_batch_norm() const { return flag("sync_batch_norm", false); }
  bool hybrid_shard() const { return flag("hybrid_shard", false); }
  bool reshard_after_forward() const { return flag("reshard_after_forward", true); }
  std::optional<double> memory_budget_bytes() const;  // nothing: there is none

  // Any parameter by its name; null where it was not written.
  nlohmann::json value(const std::string& name) const;
  bool empty() const { return written_.empty(); }
  bool has(const std::string& name) const { return written_.contains(name); }
  std::vector<std::string> names() const;  // of those that were written, sorted

  Parameters with(const std::string& name, const nlohmann::json& value) const;
  Parameters without(std::initializer_list<const char*> names) const;

  const nlohmann::json& written() const { return written_; }

  // Equal where the same was written.
  bool operator==(const Parameters&) const = default;

 private:
  std::string text(const char* name, const std::string& if_absent) const {
    return written_.value(name, if_absent);
  }
  int integer(const char* name, int if_absent) const { return written_.value(name, if_absent); }
  bool flag(const char* name, bool if_absent) const { return written_.value(name, if_absent); }

  nlohmann::json written_ = nlohmann::json::object();
};

}  // namespace gradsync::results
