// Stored bytes as a tensor.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <map>

#include "harness/base/errors.h"
#include "models/safetensors_file.h"

namespace gradsync::models {

at::Tensor SafetensorsFile::read(const std::string& name) const {
  static const std::map<std::string, at::ScalarType> types{
      {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}};
  const StoredTensor& tensor = tensors_.at(name);
  const auto type = types.find(tensor.dtype);
  if (type == types.end()) throw ConfigError(path_, name, tensor.dtype, "F32, F16 or BF16");
  at::Tensor copy = at::empty(tensor.shape, type->second);
  if (tensor.begin < tensor.end) {
    std::memcpy(copy.data_ptr(), bytes_ + data_start_ + tensor.begin, tensor.end - tensor.begin);
  }
  return copy;
}

}  // namespace gradsync::models
