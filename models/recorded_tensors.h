// Follows the model's own tensors through the passes of a recorded micro-batch, one by one: a
// recording names a tensor by its size and its age among those of that size.   No torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/memory_profile.h"

namespace gradsync::models {

// `Tensor`: the caller's name of one.
template <typename Tensor>
class RecordedTensors {
 public:
  void add(std::int64_t bytes, Tensor tensor) { of_size_[bytes].push_back(std::move(tensor)); }

  // Removes the tensor from the model's and returns it; nothing: there is none.
  std::optional<Tensor> take(std::int64_t bytes, std::size_t age) {
    std::vector<Tensor>& tensors = of_size_[bytes];
    if (age >= tensors.size()) return std::nullopt;
    const auto place = tensors.end() - static_cast<std::ptrdiff_t>(age) - 1;
    Tensor tensor = std::move(*place);
    tensors.erase(place);
    return tensor;
  }

  bool empty() const {
    for (const auto& [bytes, tensors] : of_size_) {
      if (!tensors.empty()) return false;
    }
    return true;
  }

 private:
  std::unordered_map<std::int64_t, std::vector<Tensor>> of_size_;  // the youngest last
};

// Returns whether every tensor that the passes free is there, and none is left at the end.
bool frees_what_it_makes(const MemoryProfile& profile);

}  // namespace gradsync::models
