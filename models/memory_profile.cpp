#include "models/memory_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "models/recorded_tensors.h"

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

// BYTES of a tensor that is made, -BYTES of one that is freed or [-BYTES, AGE] of an older one.
std::optional<BlockChange> change_of(const json& entry) {
  const bool has_age = entry.is_array() && entry.size() == 2 && entry[1].is_number_unsigned();
  const json& size = has_age ? entry[0] : entry;
  if (!size.is_number_integer()) return {};
  const auto bytes = size.get<std::int64_t>();
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;  // far from overflow in sums
  if (bytes == 0 || bytes < -kMostBytes || bytes > kMostBytes || (has_age && bytes > 0)) return {};
  return BlockChange{std::abs(bytes), bytes > 0, has_age ? entry[1].get<std::size_t>() : 0};
}

std::vector<std::vector<BlockChange>> changes_named(JsonFields& fields, const std::string& name) {
  const char* expected = "lists of BYTES, -BYTES and [-BYTES, AGE]";
  std::vector<std::vector<BlockChange>> lists;
  for (const json& list : array_named(fields, name)) {
    if (!list.is_array()) fields.fail(name, expected, quote(list));
    lists.emplace_back();
    for (const json& entry : list) {
      const auto change = change_of(entry);
      if (!change) fields.fail(name, expected, quote(entry));
      lists.back().push_back(*change);
    }
  }
  return lists;
}

// Events of a pass, and what their indices may be.
class PassReader {
 public:
  PassReader(JsonFields& fields, const MemoryProfile& profile)
      : fields_(fields),
        modules_(profile.modules.size()),
        parameters_(profile.parameters.size()),
        changes_(profile.changes.size()) {}

  std::vector<PassEvent> read(const std::string& name) const {
    std::vector<PassEvent> events;
    for (const json& entry : array_named(fields_, name)) {
      const auto event = event_of(entry);
      if (!event) {
        fields_.fail(
            name,
            changes_ == 0
                ? R"(["hold", HIGH, NET], ["in", MODULE], ["out", MODULE] and )"
                  R"(["gradient", PARAMETER, BYTES])"
                : R"(["hold", HIGH, NET, CHANGES], ["in", MODULE], ["out", MODULE] and )"
                  R"(["gradient", PARAMETER, BYTES] or ["gradient", PARAMETER, BYTES, AGE])",
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
    if (kind == "hold") return hold_of(entry);
    const auto index = static_cast<std::size_t>(first);
    if (entry.size() == 2 && index < modules_) {
      if (kind == "in") return PassEvent{PassEvent::Kind::Enter, index};
      if (kind == "out") return PassEvent{PassEvent::Kind::Leave, index};
    }
    const bool has_age = changes_ > 0 && entry.size() == 4;
    if ((has_age || entry.size() == 3) && kind == "gradient" && index < parameters_) {
      const std::int64_t age = has_age ? entry[3].get<std::int64_t>() : 0;
      if (age < 0) return {};
      return PassEvent{PassEvent::Kind::Gradient, index, 0, entry[2].get<std::int64_t>(),
                       static_cast<std::size_t>(age)};
    }
    return {};
  }

  std::optional<PassEvent> hold_of(const json& entry) const {
    if (entry.size() != (changes_ == 0 ? 3 : 4)) return {};
    const auto high = entry[1].get<std::int64_t>();
    const auto net = entry[2].get<std::int64_t>();
    if (net > high) return {};
    if (changes_ == 0) return PassEvent{PassEvent::Kind::Hold, 0, high, net};
    if (!entry[3].is_number_unsigned() || entry[3].get<std::size_t>() >= changes_) return {};
    return PassEvent{PassEvent::Kind::Hold, entry[3].get<std::size_t>(), high, net};
  }

  JsonFields& fields_;
  std::size_t modules_;
  std::size_t parameters_;
  std::size_t changes_;
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
  if (where != "cpu" && where != "cuda" && where != "fake") {
    fields.fail("recorded_on", R"("cpu", "cuda" or "fake")");
  }
  profile.is_fake = where == "fake";
  profile.is_of_gpu = where == "cuda";
  profile.dtype = fields.string("dtype");
  profile.batch_bytes = fields.integer("batch_bytes", 0);
  profile.buffer_bytes = sizes_named(fields, "buffers_bytes");
  profile.parameters = entries_named(fields, "parameters", &parameter_of);
  profile.modules = entries_named(fields, "modules", &module_of);
  profile.units = names_named(fields, "units");
  if (fields.has("changes")) {
    profile.changes = changes_named(fields, "changes");
    profile.batch_tensors_bytes = sizes_named(fields, "batch_tensors_bytes");
  }
  const PassReader passes(fields, profile);
  profile.forward = passes.read("forward");
  profile.backward_first = passes.read("backward_first");
  profile.backward_later = passes.read("backward_later");
  if (!profile.changes.empty() && !frees_what_it_makes(profile)) {
    fields.fail("changes", "that each pass frees what there is, all but gradients",
                "a tensor missing or left");
  }
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
