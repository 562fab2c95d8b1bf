// The file itself: mapped, with its table of tensors validated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gradsync::models {

struct StoredTensor {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

class SafetensorsFile {
 public:
  // Errors: ConfigError where the file cannot be read or its table is malformed.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // Returns a copy: offsets need not be aligned to the element, and reading in place would be
  // undefined where they are not.
  at::Tensor read(const StoredTensor& tensor) const;

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
