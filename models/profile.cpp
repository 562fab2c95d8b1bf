#include "models/profile.h"

#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::models {
namespace {

using nlohmann::json;

const json& array_of(JsonFields& fields, const std::string& name) {
  const json& value = fields.raw(name, true);
  if (!value.is_array()) fields.fail(name, "a list");
  return value;
}

std::vector<ProfileTensor> tensors_of(JsonFields& fields, const std::string& name,
                                      const std::string& path) {
  std::vector<ProfileTensor> tensors;
  for (const json& entry : array_of(fields, name)) {
    const std::string place = fmt::format("{}{}[{}].", path, name, tensors.size());
    JsonFields tensor_fields(entry, fields.file(), place);
    ProfileTensor tensor;
    tensor.name = tensor_fields.string("name");
    for (const json& extent : array_of(tensor_fields, "shape")) {
      if (!extent.is_number_integer() || extent.get<std::int64_t>() < 1) {
        tensor_fields.fail("shape", "a list of positive integers");
      }
      tensor.shape.push_back(extent.get<std::int64_t>());
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

}  // namespace

std::int64_t ProfileTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

Profile read_profile(const std::string& path) {
  const json source = read_json_file(path);
  JsonFields fields(source, path);
  if (fields.string("schema") != "gradsync.profile/1") fields.fail("schema", "\"gradsync.profile/1\"");
  if (fields.string("dtype") != "float32") fields.fail("dtype", "\"float32\"");
  Profile profile;
  profile.name = fields.string("name");
  profile.about = fields.string("about");
  fields.string("source");
  for (const json& entry : array_of(fields, "layers")) {
    const std::string place = fmt::format("layers[{}].", profile.layers.size());
    JsonFields layer_fields(entry, path, place);
    ProfileLayer layer;
    layer.name = layer_fields.string("name");
    layer.forward_s = duration_of(layer_fields, "forward_s");
    layer.backward_s = duration_of(layer_fields, "backward_s");
    layer.parameters = tensors_of(layer_fields, "parameters", place);
    layer_fields.finish();
    profile.layers.push_back(std::move(layer));
  }
  if (profile.layers.empty()) fields.fail("layers", "at least one layer");
  profile.optimizer_s = duration_of(fields, "optimizer_s");
  profile.buffers = tensors_of(fields, "buffers", "");
  fields.finish();
  return profile;
}

}  // namespace gradsync::models
