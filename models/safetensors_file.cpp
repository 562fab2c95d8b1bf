#include "models/safetensors_file.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::models {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;

at::ScalarType type_of(JsonFields& fields) {
  const std::string type = fields.string("dtype");
  if (type == "F32") return at::kFloat;
  if (type == "F16") return at::kHalf;
  if (type == "BF16") return at::kBFloat16;
  if (type == "I64") return at::kLong;  // position ids in older checkpoints
  fields.fail("dtype", "F32, F16, BF16 or I64");
}

std::vector<std::uint64_t> numbers_of(JsonFields& fields, const std::string& name) {
  const json& list = fields.raw(name, true);
  std::vector<std::uint64_t> numbers;
  if (!list.is_array()) fields.fail(name, "a list of integers");
  for (const json& number : list) {
    if (!number.is_number_unsigned()) fields.fail(name, "a list of integers, none negative");
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

StoredTensor tensor_of(const json& entry, const std::string& file, const std::string& name,
                       std::uint64_t data_bytes) {
  JsonFields fields(entry, file, name + ".");
  StoredTensor tensor;
  tensor.type = type_of(fields);
  std::uint64_t bytes = at::elementSize(tensor.type);
  for (const std::uint64_t extent : numbers_of(fields, "shape")) {
    tensor.shape.push_back(static_cast<std::int64_t>(extent));
    if (__builtin_mul_overflow(bytes, extent, &bytes)) fields.fail("shape", "a size that fits");
  }
  const auto offsets = numbers_of(fields, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    fields.fail("data_offsets", fmt::format("[begin, end] within the file's {} bytes of data",
                                            data_bytes));
  }
  if (offsets[1] - offsets[0] != bytes) {
    fields.fail("data_offsets", fmt::format("{} bytes, as dtype and shape say", bytes));
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  return tensor;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  map_file();
  try {
    read_table();
    check_offsets();
  } catch (...) {
    munmap(const_cast<std::uint8_t*>(bytes_), size_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { munmap(const_cast<std::uint8_t*>(bytes_), size_); }

void SafetensorsFile::map_file() {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    const std::string why = std::strerror(errno);
    if (fd >= 0) close(fd);
    throw ConfigError(fmt::format("{}: cannot be read: {}", path_, why));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  void* mapped = MAP_FAILED;
  if (size_ >= kLengthBytes) mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) {
    throw ConfigError(path_, "header length", fmt::format("a file of {} bytes", size_),
                      "at least 8 bytes: truncated, or no safetensors file");
  }
  bytes_ = static_cast<const std::uint8_t*>(mapped);
}

void SafetensorsFile::read_table() {
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes_, kLengthBytes);
  if (header_bytes > size_ - kLengthBytes) {
    throw ConfigError(path_, "header length", fmt::format("{}", header_bytes),
                      fmt::format("at most {}, what the file holds: truncated, or no safetensors "
                                  "file",
                                  size_ - kLengthBytes));
  }
  data_start_ = kLengthBytes + header_bytes;
  const auto* text = reinterpret_cast<const char*>(bytes_ + kLengthBytes);
  const json table = json::parse(text, text + header_bytes, nullptr, /*allow_exceptions=*/false);
  if (!table.is_object()) throw ConfigError(path_, "header", "no JSON object", "one per tensor");
  for (const auto& [name, entry] : table.items()) {
    if (name == "__metadata__") continue;
    tensors_[name] = tensor_of(entry, path_, name, size_ - data_start_);
  }
}

void SafetensorsFile::check_offsets() const {
  std::vector<std::pair<const StoredTensor*, const std::string*>> in_order;
  for (const auto& [name, tensor] : tensors_) in_order.emplace_back(&tensor, &name);
  std::sort(in_order.begin(), in_order.end(),
            [](const auto& a, const auto& b) { return a.first->begin < b.first->begin; });
  for (std::size_t i = 1; i < in_order.size(); ++i) {
    if (in_order[i].first->begin >= in_order[i - 1].first->end) continue;
    throw ConfigError(path_, *in_order[i].second + ".data_offsets",
                      fmt::format("begin {}", in_order[i].first->begin),
                      fmt::format("at least {}, where '{}' ends: they overlap",
                                  in_order[i - 1].first->end, *in_order[i - 1].second));
  }
}

at::Tensor SafetensorsFile::read(const StoredTensor& tensor) const {
  at::Tensor copy = at::empty(tensor.shape, at::TensorOptions().dtype(tensor.type));
  std::memcpy(copy.data_ptr(), bytes_ + data_start_ + tensor.begin, tensor.end - tensor.begin);
  return copy;
}

}  // namespace gradsync::models
