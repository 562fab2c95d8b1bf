#include "models/safetensors_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::models {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLargestNumber = std::numeric_limits<std::int64_t>::max();

// The reference implementation's limit; a longer table is none.
constexpr std::uint64_t kLongestTable = 100'000'000;

// Returns the bytes per element of every dtype: even the sizes of unused tensors are checked.
const std::map<std::string, std::uint64_t>& element_bytes() {
  static const std::map<std::string, std::uint64_t> bytes{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  return bytes;
}

// Null where the text is no JSON.
json object_in(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const json::exception&) {
    return nullptr;
  }
}

std::vector<std::uint64_t> numbers_of(JsonFields& fields, const std::string& name) {
  const json& list = fields.raw(name, true);
  std::vector<std::uint64_t> numbers;
  if (!list.is_array()) fields.fail(name, "a list of integers");
  for (const json& number : list) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > kLargestNumber) {
      fields.fail(name, "a list of integers, none negative");
    }
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

StoredTensor tensor_of(const json& entry, const std::string& file, const std::string& name,
                       std::uint64_t data_bytes) {
  JsonFields fields(entry, file, name + ".");
  StoredTensor tensor;
  tensor.dtype = fields.string("dtype");
  const auto element = element_bytes().find(tensor.dtype);
  if (element == element_bytes().end()) fields.fail("dtype", "a safetensors dtype such as F32");
  std::uint64_t bytes = element->second;
  for (const std::uint64_t extent : numbers_of(fields, "shape")) {
    tensor.shape.push_back(static_cast<std::int64_t>(extent));
    if (__builtin_mul_overflow(bytes, extent, &bytes)) fields.fail("shape", "a size that fits");
  }
  const auto offsets = numbers_of(fields, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    fields.fail("data_offsets",
                fmt::format("[begin, end] within the file's {} bytes of data", data_bytes));
  }
  if (offsets[1] - offsets[0] != bytes) {
    fields.fail("data_offsets", fmt::format("{} bytes, as dtype and shape say", bytes));
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  fields.finish();
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

SafetensorsFile::~SafetensorsFile() {
  munmap(const_cast<std::uint8_t*>(bytes_), size_);
}

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
  if (S_ISREG(status.st_mode) && size_ >= kLengthBytes)
    mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
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
  const std::uint64_t most = std::min(size_ - kLengthBytes, kLongestTable);
  if (header_bytes > most) {
    throw ConfigError(path_, "header length", fmt::format("{}", header_bytes),
                      fmt::format("at most {}: truncated, or no safetensors file", most));
  }
  data_start_ = kLengthBytes + header_bytes;
  const auto* text = reinterpret_cast<const char*>(bytes_ + kLengthBytes);
  const json table = object_in({text, header_bytes});
  if (!table.is_object()) throw ConfigError(path_, "header", "no JSON object", "one per tensor");
  for (const auto& [name, entry] : table.items()) {
    if (name == "__metadata__") continue;
    tensors_[name] = tensor_of(entry, path_, name, size_ - data_start_);
  }
}

void SafetensorsFile::check_offsets() const {
  std::vector<std::pair<const StoredTensor*, const std::string*>> in_order;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.begin < tensor.end) in_order.emplace_back(&tensor, &name);
  }
  std::ranges::sort(in_order, {}, [](const auto& each) { return each.first->begin; });
  for (std::size_t i = 1; i < in_order.size(); ++i) {
    if (in_order[i].first->begin >= in_order[i - 1].first->end) continue;
    throw ConfigError(path_, *in_order[i].second + ".data_offsets",
                      fmt::format("begin {}", in_order[i].first->begin),
                      fmt::format("at least {}, where '{}' ends: they overlap",
                                  in_order[i - 1].first->end, *in_order[i - 1].second));
  }
}

}  // namespace gradsync::models
