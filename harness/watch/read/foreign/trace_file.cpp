#include "harness/watch/read/foreign/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/paper/gpu_models.h"
#include "harness/text/text_width.h"
#include "harness/watch/inject/preload/fnv_1a.h"
#include "harness/watch/read/foreign/device_events.h"
#include "harness/watch/read/group_roles.h"

namespace gradsync::watch {

using nlohmann::json;

namespace {

constexpr const char* kEvents = "traceEvents";
constexpr const char* kDistributed = "distributedInfo";
constexpr const char* kDriver = "cuda_driver_version";
constexpr std::size_t kBeginning = 1 << 16;
constexpr std::int64_t kMostRanks = std::numeric_limits<int>::max();

constexpr std::array<std::pair<std::string_view, TracedKind>, 3> kCategories{{
    {"cpu_op", TracedKind::Operator},
    {"user_annotation", TracedKind::Annotation},
    {"python_function", TracedKind::PythonFunction},
}};

// Returns whether a Python function is kept: a trace has many times more of them than operators.
bool is_told(std::string_view function) {
  return function.starts_with("nn.Module: ") ||
         (function.find("torch/autograd/__init__.py(") != std::string_view::npos &&
          function.ends_with(": backward"));
}

// "ProfilerStep#4", a range around a whole step.
std::optional<std::int64_t> step_of_schedule(std::string_view range) {
  constexpr std::string_view kStep = "ProfilerStep#";
  if (!range.starts_with(kStep)) return std::nullopt;
  std::int64_t number = 0;
  const auto read =
      std::from_chars(range.data() + kStep.size(), range.data() + range.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

class TraceReader {
 public:
  explicit TraceReader(const std::string& name) : name_(name) {}

  TraceFile read(std::string_view text) {
    const json top = parsed(text);
    if (!top.is_object() || !has_events_) {
      throw ConfigError(name_, kEvents, top.is_object() ? "nothing" : "no object", "a list");
    }
    if (top.contains(kDistributed)) read_distributed(top.at(kDistributed));
    const json& driver = value_at(top, kDriver);
    file_.is_on_paper = driver.is_number_integer() && driver.get<int>() % 10 == paper::kDriverDigit;
    std::ranges::stable_sort(file_.ranges, {}, [](const TracedRange& range) {
      return std::tuple(range.start_ns, -range.end_ns);
    });
    return std::move(file_);
  }

 private:
  json parsed(std::string_view text) {
    const auto take = [this](int depth, json::parse_event_t event, json& value) {
      return see(depth, event, value);
    };
    try {
      return json::parse(text, take);
    } catch (const json::exception& error) {
      throw ConfigError(fmt::format("{}: not valid JSON: {}", name_, error.what()));
    }
  }

  // Keeps what an event says, and drops its JSON at once: a trace may have millions.
  bool see(int depth, json::parse_event_t event, json& value) {
    if (depth > kDeepestJson) {
      throw ConfigError(name_, "(top level)",
                        fmt::format("lists and objects nested more than {} deep", kDeepestJson),
                        "a trace");
    }
    if (event == json::parse_event_t::key && depth == 1) {
      is_in_events_ = value == kEvents;
      has_events_ |= is_in_events_;
    }
    if (!is_in_events_ || depth != 2 || event != json::parse_event_t::object_end) return true;
    read_event(value);
    ++index_;
    return false;
  }

  [[noreturn]] void fail(const char* field, const json& got, const std::string& expected) const {
    throw ConfigError(name_, fmt::format("{}[{}].{}", kEvents, index_, field), quote(got),
                      expected);
  }

  static bool is_null(const json& object, const char* field) {
    const auto found = object.find(field);
    return found != object.end() && found->is_null();
  }

  // Absent: null, which says that it is not known.
  std::optional<std::int64_t> nanoseconds(const json& event, const char* field) const {
    const json& value = value_at(event, field);
    if (is_null(event, field)) return std::nullopt;
    if (!value.is_number()) fail(field, value, "microseconds, a number");
    const auto microseconds = value.get<double>();
    if (!(microseconds >= 0 && microseconds <= kMostMicroseconds)) {
      fail(field, value, fmt::format("microseconds from 0 to {:g}", kMostMicroseconds));
    }
    return exact_nanoseconds(microseconds);
  }

  std::optional<std::int64_t> number(const json& event, const char* field) const {
    const json& value = value_at(event, field);
    if (is_null(event, field)) return std::nullopt;
    if (!value.is_number_integer()) fail(field, value, "an integer");
    return value.get<std::int64_t>();
  }

  void read_event(const json& event) {
    const json& category = value_at(event, "cat");
    if (value_at(event, "ph") != "X" || !category.is_string()) return;
    const auto* const known = std::ranges::find_if(kCategories, [&](const auto& entry) {
      return category.get_ref<const std::string&>() == entry.first;
    });
    if (known == kCategories.end()) {
      return see_device(category.get_ref<const std::string&>(), event);
    }
    if (!value_at(event, "name").is_string()) fail("name", value_at(event, "name"), "a string");
    const auto& name = value_at(event, "name").get_ref<const std::string&>();
    file_.has_python |= known->second == TracedKind::PythonFunction;
    if (known->second == TracedKind::PythonFunction && !is_told(name)) return;
    TracedRange range;
    range.kind = known->second;
    range.name = kept(name);
    const auto start_ns = nanoseconds(event, "ts");
    const auto duration_ns = nanoseconds(event, "dur");
    const auto thread = number(event, "tid");
    file_.pid = number(event, "pid").value_or(file_.pid);
    if (!start_ns || !duration_ns || !thread) {
      file_.has_unknown_ranges = true;
      return;
    }
    range.start_ns = *start_ns;
    range.end_ns = *start_ns + *duration_ns;
    range.thread = *thread;
    if (const json& details = value_at(event, "args"); details.is_object()) {
      read_details(details, range);
    }
    if (const auto step = step_of_schedule(range.name)) {
      file_.first_step = std::min(*step, file_.first_step.value_or(*step));
    }
    file_.ranges.push_back(range);
  }

  void see_device(std::string_view category, const json& event) {
    if (is_work(category)) {
      file_.work.push_back(work_of(category, event));
      TracedWork& work = file_.work.back();
      if (!work.name.empty()) work.name = kept(std::string(work.name));
    } else if (const auto launch = launch_of(category, event)) {
      file_.launches.push_back(*launch);
    }
  }

  void read_details(const json& details, TracedRange& range) {
    const json& sizes = value_at(details, "Input Dims");
    if (sizes.is_array() && !has_null(sizes)) {
      file_.has_shapes = true;
      range.inputs = kept_inputs(sizes, value_at(details, "Input type"));
    }
    if (range.name == "record_param_comms" && value_at(details, "Collective name").is_string()) {
      file_.comms.push_back(comm_of(details));
      range.comm = &file_.comms.back();
    }
  }

  // Whether a size is not known, or the sizes of a tensor are not.
  static bool has_null(const json& sizes) {
    return sizes.is_null() || (sizes.is_array() && std::ranges::any_of(sizes, has_null));
  }

  std::string_view kept(const std::string& name) {
    const auto known = names_.find(name);
    if (known != names_.end()) return known->second;
    file_.names.push_back(text::printable(name));
    return names_.emplace(name, file_.names.back()).first->second;
  }

  // The same operators come again and again.
  const TracedInputs* kept_inputs(const json& sizes, const json& types) {
    const auto [known, is_new] = inputs_.try_emplace(sizes.dump() + types.dump(), nullptr);
    if (is_new) {
      file_.inputs.push_back(inputs_of(sizes, types));
      known->second = &file_.inputs.back();
    }
    return known->second;
  }

  TracedInputs inputs_of(const json& sizes, const json& types) const {
    TracedInputs inputs;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const json& type = types.is_array() && i < types.size() ? types[i] : json();
      inputs.emplace_back();
      add_tensors(sizes[i], type.is_string() ? type.get<std::string>() : "", inputs.back());
    }
    return inputs;
  }

  // A tensor is a list of sizes, a list of tensors one of such. What has no sizes is a number, or
  // no tensor: its type tells.
  void add_tensors(const json& sizes, const std::string& type,
                   std::vector<TracedTensor>& into) const {
    if (!sizes.is_array()) fail("args.Input Dims", sizes, "lists of sizes");
    const bool is_list = !sizes.empty() && sizes.front().is_array();
    if (is_list) {
      const std::string of_each = type == "TensorList" || type == "GenericList" ? "" : type;
      for (const json& each : sizes) add_tensors(each, of_each, into);
      return;
    }
    const bool is_a_number = type != "" && type != "Scalar" && type != "ScalarList" &&
                             type != "GenericList" && type != "TensorList";
    if (sizes.empty() && !is_a_number) return;
    TracedTensor tensor{.sizes = {}, .type = type};
    for (const json& size : sizes) {
      if (!size.is_number_integer() || size < 0) fail("args.Input Dims", size, "sizes, at least 0");
      tensor.sizes.push_back(size.get<std::int64_t>());
    }
    into.push_back(std::move(tensor));
  }

  std::int64_t elements(const json& details, const char* field) const {
    const json& value = value_at(details, field);
    if (value.is_null()) return -1;
    if (!value.is_number_integer() || value < 0) {
      fail(fmt::format("args.{}", field).c_str(), value, "an integer of at least 0");
    }
    return value.get<std::int64_t>();
  }

  TracedComm comm_of(const json& details) {
    TracedComm comm;
    comm.in_elements = elements(details, "In msg nelems");
    comm.out_elements = elements(details, "Out msg nelems");
    const std::int64_t ranks = elements(details, "Group size");
    comm.group_size = static_cast<int>(std::clamp<std::int64_t>(ranks, 0, kMostRanks));
    const json& type = value_at(details, "dtype");
    if (type.is_string()) comm.type = type.get<std::string>();
    const json& group = value_at(details, "Process Group Name");
    if (group.is_string()) comm.group = text::printable(group.get<std::string>());
    return comm;
  }

  [[noreturn]] void fail_distributed(const std::string& field, const json& got,
                                     const char* expected) const {
    throw ConfigError(name_, fmt::format("{}.{}", kDistributed, field), quote(got), expected);
  }

  std::optional<int> small(const json& info, const char* field, int at_least) const {
    const json& value = value_at(info, field);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number_integer() || value < at_least || value > std::numeric_limits<int>::max()) {
      fail_distributed(field, value,
                       at_least == 0 ? "an integer of at least 0" : "an integer of at least 1");
    }
    return value.get<int>();
  }

  void read_distributed(const json& info) {
    if (info.is_null()) return;
    if (!info.is_object()) throw ConfigError(name_, kDistributed, quote(info), "an object");
    file_.rank = small(info, "rank", 0).value_or(file_.rank);
    file_.world_size = small(info, "world_size", 1).value_or(file_.world_size);
    if (file_.world_size > 0 && file_.rank >= file_.world_size) {
      fail_distributed("rank", value_at(info, "rank"), "one below world_size");
    }
    const json& groups = value_at(info, "pg_config");
    if (groups.is_null()) return;
    if (!groups.is_array()) fail_distributed("pg_config", groups, "a list of process groups");
    for (const json& each : groups) read_group(each);
  }

  void read_group(const json& told) {
    const json& name = told.is_object() ? value_at(told, "pg_name") : json();
    if (!name.is_string()) fail_distributed("pg_config", told, "groups that have a pg_name");
    Group group;
    group.name = text::printable(name.get<std::string>());
    group.number = nonzero_fnv_1a(group.name);
    const json& axis = value_at(told, "pg_desc");
    if (axis.is_string())
      group.axis = axis_of_description(text::printable(axis.get<std::string>()));
    const json& ranks = value_at(told, "ranks");
    if (ranks.is_array()) {
      for (const json& rank : ranks) {
        if (!rank.is_number_integer() || rank < 0 ||
            rank > std::numeric_limits<int>::max()) {  // torch leaves out some of very many
          group.ranks.clear();
          break;
        }
        group.ranks.push_back(rank.get<int>());
      }
    }
    file_.groups.push_back(std::move(group));
  }

  const std::string& name_;
  TraceFile file_;
  std::unordered_map<std::string, std::string_view> names_;
  std::unordered_map<std::string, const TracedInputs*> inputs_;
  bool is_in_events_ = false;
  bool has_events_ = false;
  std::size_t index_ = 0;  // of the event
};

}  // namespace

std::int64_t exact_nanoseconds(double microseconds) {
  const double whole = std::floor(microseconds);
  return static_cast<std::int64_t>(whole) * 1000 + std::llround((microseconds - whole) * 1e3);
}

const json& value_at(const json& object, const char* field) {
  static const json absent;
  if (!object.is_object()) return absent;
  const auto found = object.find(field);
  return found == object.end() ? absent : *found;
}

bool is_trace(std::string_view text) {
  const std::string_view beginning = text.substr(0, kBeginning);
  return beginning.find("\"schemaVersion\"") != std::string_view::npos ||
         beginning.find("\"traceEvents\"") != std::string_view::npos;
}

TraceFile parse_trace(std::string_view text, const std::string& name) {
  return TraceReader(name).read(text);
}

}  // namespace gradsync::watch
