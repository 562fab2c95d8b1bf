#include "models/memory_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::models {
namespace {

using nlohmann::json;

const json& array_named(JsonFields& fields, const std::string& name) {
  const json& value = fields.raw(name, true);
  if (!value.is_array()) fields.fail(name, "a list");
  return value;
}

std::vector<std::int64_t> sizes_named(JsonFields& fields, const std::string& name) {
  const char* expected = "integers, at least 0";
  std::vector<std::int64_t> sizes;
  for (const json& entry : array_named(fields, name)) {
    if (!entry.is_number_unsigned()) fields.fail(name, expected);
    sizes.push_back(entry.get<std::int64_t>());
  }
  return sizes;
}

std::vector<std::string> names_named(JsonFields& fields, const std::string& name) {
  std::vector<std::string> names;
  for (const json& entry : array_named(fields, name)) {
    if (!entry.is_string()) fields.fail(name, "names");
    names.push_back(entry.get<std::string>());
  }
  return names;
}

RecordedParameter parameter_of(JsonFields& fields) {
  // Larger than any tensor; keeps products of extents far from overflow.
  constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
  RecordedParameter parameter;
  parameter.name = fields.string("name");
  parameter.shape = sizes_named(fields, "shape");
  std::int64_t elements = 1;
  for (const std::int64_t extent : parameter.shape) {
    if (extent > 0 && elements > kMostElements / extent) {
      fields.fail("shape", "integers, at least 0, at most 2^40 elements together");
    }
    elements *= std::max<std::int64_t>(extent, 1);
  }
  parameter.trains = fields.boolean("trains");
  if (fields.has("tied")) names_named(fields, "tied");
  return parameter;
}

RecordedModule module_of(JsonFields& fields) {
  RecordedModule module;
  module.name = fields.string("name");
  module.type = fields.string("class");
  module.saved_bytes = fields.integer("saved_bytes", 0);
  module.output_bytes = fields.integer("output_bytes", 0);
  module.forward_high_bytes = fields.integer("forward_high_bytes", 0);
  module.backward_high_bytes = fields.integer("backward_high_bytes", 0);
  return module;
}

template <typename Entry>
std::vector<Entry> entries_named(JsonFields& fields, const std::string& name,
                                 Entry (*read)(JsonFields&)) {
  std::vector<Entry> entries;
  for (const json& entry : array_named(fields, name)) {
    JsonFields entry_fields(entry, fields.file(),
                            fmt::format("memory.{}[{}].", name, entries.size()));
    entries.push_back(read(entry_fields));
    entry_fields.finish();
  }
  return entries;
}

// Events of a pass, and what their indices may be.
class PassReader {
 public:
  PassReader(JsonFields& fields, std::size_t modules, std::size_t parameters)
      : fields_(fields), modules_(modules), parameters_(parameters) {}

  std::vector<PassEvent> read(const std::string& name) const {
    std::vector<PassEvent> events;
    for (const json& entry : array_named(fields_, name)) {
      const auto event = event_of(entry);
      if (!event) {
        fields_.fail(name,
                     R"(["hold", HIGH, NET], ["in", MODULE], ["out", MODULE] and )"
                     R"(["gradient", PARAMETER, BYTES])",
                     quote(entry));
      }
      events.push_back(*event);
    }
    return events;
  }

 private:
  std::optional<PassEvent> event_of(const json& entry) const {
    if (!entry.is_array() || entry.size() < 2 || !entry[0].is_string()) return {};
    for (std::size_t i = 1; i < entry.size(); ++i) {
      if (!entry[i].is_number_integer()) return {};
    }
    const auto& kind = entry[0].get_ref<const std::string&>();
    const auto first = entry[1].get<std::int64_t>();
    if (first < 0) return {};
    if (entry.size() == 3 && kind == "hold") {
      const auto net = entry[2].get<std::int64_t>();
      if (net > first) return {};
      return PassEvent{PassEvent::Kind::Hold, 0, first, net};
    }
    const auto index = static_cast<std::size_t>(first);
    if (entry.size() == 2 && index < modules_) {
      if (kind == "in") return PassEvent{PassEvent::Kind::Enter, index};
      if (kind == "out") return PassEvent{PassEvent::Kind::Leave, index};
    }
    if (entry.size() == 3 && kind == "gradient" && index < parameters_) {
      return PassEvent{PassEvent::Kind::Gradient, index, 0, entry[2].get<std::int64_t>()};
    }
    return {};
  }

  JsonFields& fields_;
  std::size_t modules_;
  std::size_t parameters_;
};

}  // namespace

std::int64_t RecordedParameter::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

MemoryProfile read_memory_profile(const json& value, const std::string& file) {
  JsonFields fields(value, file, "memory.");
  MemoryProfile profile;
  const std::string where = fields.string("recorded_on");
  if (where != "cpu" && where != "fake") fields.fail("recorded_on", R"("cpu" or "fake")");
  profile.is_fake = where == "fake";
  profile.dtype = fields.string("dtype");
  profile.batch_bytes = fields.integer("batch_bytes", 0);
  profile.buffer_bytes = sizes_named(fields, "buffers_bytes");
  profile.parameters = entries_named(fields, "parameters", &parameter_of);
  profile.modules = entries_named(fields, "modules", &module_of);
  profile.units = names_named(fields, "units");
  const PassReader passes(fields, profile.modules.size(), profile.parameters.size());
  profile.forward = passes.read("forward");
  profile.backward_first = passes.read("backward_first");
  profile.backward_later = passes.read("backward_later");
  fields.finish();
  return profile;
}

std::vector<std::size_t> modules_named(const MemoryProfile& profile,
                                       const std::vector<std::string>& names) {
  std::vector<bool> is_meant(profile.modules.size());
  for (const std::string& name : names) {
    bool is_known = false;
    for (std::size_t i = 0; i < profile.modules.size(); ++i) {
      const RecordedModule& module = profile.modules[i];
      if (module.name.empty() || (module.name != name && module.type != name)) continue;
      is_meant[i] = is_known = true;
    }
    if (!is_known) {
      throw ConfigError(fmt::format(
          "units: got \"{}\", expected the name or the class of a module with parameters", name));
    }
  }
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < is_meant.size(); ++i) {
    if (is_meant[i]) indices.push_back(i);
  }
  return indices;
}

}  // namespace gradsync::models
