#include "models/profile.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "harness/base/json_fields.h"

namespace gradsync::models {
namespace {

using nlohmann::json;

// Larger than any tensor; keeps products of extents far from overflow.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;

const json& array_of(JsonFields& fields, const std::string& name) {
  const json& value = fields.raw(name, true);
  if (!value.is_array()) fields.fail(name, "a list");
  return value;
}

// "a.b.weight": parts between dots, none empty.
bool is_dotted_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.back() != '.' &&
         name.find("..") == std::string::npos;
}

std::vector<std::int64_t> shape_of(JsonFields& fields) {
  const char* expected = "positive integers, at most 2^40 elements together";
  const json& extents = array_of(fields, "shape");
  if (extents.empty()) fields.fail("shape", expected);
  std::uint64_t elements = 1;
  for (const json& extent : extents) {
    if (!extent.is_number_unsigned()) fields.fail("shape", expected);
    const auto value = extent.get<std::uint64_t>();
    if (value < 1 || value > kMostElements / elements) fields.fail("shape", expected);
    elements *= value;
  }
  return extents.get<std::vector<std::int64_t>>();
}

// `seen` holds the names of the tensors so far.
std::vector<ProfileTensor> tensors_of(JsonFields& fields, const std::string& name,
                                      const std::string& path, std::set<std::string>& seen) {
  std::vector<ProfileTensor> tensors;
  for (const json& entry : array_of(fields, name)) {
    const std::string place = fmt::format("{}{}[{}].", path, name, tensors.size());
    JsonFields tensor_fields(entry, fields.file(), place);
    ProfileTensor tensor{tensor_fields.string("name"), shape_of(tensor_fields)};
    if (!is_dotted_name(tensor.name)) tensor_fields.fail("name", "names joined by dots");
    if (!seen.insert(tensor.name).second) {
      tensor_fields.fail("name", "a name that no other tensor has");
    }
    tensor_fields.finish();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

double duration_of(JsonFields& fields, const std::string& name) {
  const double duration_s = fields.number(name);
  if (duration_s < 0) fields.fail(name, "seconds, at least 0");
  return duration_s;
}

std::vector<ProfileLayer> layers_of(JsonFields& fields, std::set<std::string>& seen) {
  std::vector<ProfileLayer> layers;
  for (const json& entry : array_of(fields, "layers")) {
    const std::string place = fmt::format("layers[{}].", layers.size());
    JsonFields layer_fields(entry, fields.file(), place);
    ProfileLayer layer;
    layer.name = layer_fields.string("name");
    layer.forward_s = duration_of(layer_fields, "forward_s");
    layer.backward_s = duration_of(layer_fields, "backward_s");
    layer.parameters = tensors_of(layer_fields, "parameters", place, seen);
    layer_fields.finish();
    layers.push_back(std::move(layer));
  }
  if (seen.empty()) fields.fail("layers", "at least one parameter", "none");
  return layers;
}

// What a paced model waits for, and moves.
void read_compute(JsonFields& fields, Profile& profile) {
  std::set<std::string> seen;
  profile.layers = layers_of(fields, seen);
  profile.optimizer_s = duration_of(fields, "optimizer_s");
  profile.buffers = tensors_of(fields, "buffers", "", seen);
}

}  // namespace

std::int64_t ProfileTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

Profile read_profile(const std::string& path) {
  const json source = read_json_file(path);
  JsonFields fields(source, path);
  if (fields.string("schema") != "gradsync.profile/1")
    fields.fail("schema", "\"gradsync.profile/1\"");
  if (fields.string("dtype") != "float32") fields.fail("dtype", "\"float32\"");
  Profile profile;
  profile.name = fields.string("name");
  profile.about = fields.string("about");
  fields.string("source");
  if (fields.has("memory")) profile.memory = read_memory_profile(fields.raw("memory", true), path);
  if (!profile.memory || fields.has("layers")) read_compute(fields, profile);
  fields.finish();
  return profile;
}

}  // namespace gradsync::models
