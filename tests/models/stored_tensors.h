// Tensors by name, and the safetensors file made of them. For tests.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

namespace gradsync::test {

inline std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

inline std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor contiguous = tensor.detach().contiguous();
  return {static_cast<const char*>(contiguous.data_ptr()), contiguous.nbytes()};
}

class StoredTensors {
 public:
  void add(const std::string& name, const at::Tensor& tensor, const std::string& dtype = "F32") {
    const std::size_t begin = data_.size();
    data_ += bytes_of(tensor);
    header_[name] = {
        {"dtype", dtype}, {"shape", tensor.sizes().vec()}, {"data_offsets", {begin, data_.size()}}};
  }
  std::string text() const { return file_of(header_.dump(), data_); }

 private:
  nlohmann::json header_ = {{"__metadata__", {{"format", "pt"}}}};
  std::string data_;
};

}  // namespace gradsync::test
