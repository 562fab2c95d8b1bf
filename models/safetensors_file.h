// The file itself: mapped, with its table of tensors validated. Only read() needs torch, and lies
// in safetensors_read.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace gradsync::models {

struct StoredTensor {
  std::string dtype;  // as the file says it: "F32"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

class SafetensorsFile {
 public:
  // Errors: ConfigError where the file cannot be read, is too short for its table, or the table is
  // malformed: no JSON, unknown dtype, offsets outside the file, overlapping, or not fitting dtype
  // and shape. Bytes that belong to no tensor are allowed.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // Returns a copy of tensor `name`, which must be there: offsets need not be aligned to the
  // element, and reading in place would be undefined where they are not. Errors: ConfigError for a
  // dtype other than F32, F16 and BF16.
  at::Tensor read(const std::string& name) const;

  const std::string& path() const { return path_; }

 private:
  void map_file();
  void read_table();
  void check_offsets() const;

  std::string path_;
  const std::uint8_t* bytes_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t data_start_ = 0;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace gradsync::models
