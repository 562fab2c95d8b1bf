// While it lives, this thread's matrix products and convolutions, and the other operations that
// torch can safely compute in fewer bits, cast their inputs: `with torch.autocast(device, dtype)`.
// Copies of weights are kept until the outermost scope ends, as there.
// Source: torch/amp/autocast_mode.py and ATen/autocast_mode.h, 2.11.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace gradsync::models {

class AutocastScope {
 public:
  // Without a `dtype` it changes nothing.
  AutocastScope(c10::DeviceType device, std::optional<c10::ScalarType> dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool changes_;
  bool outer_enabled_ = false;
  c10::ScalarType outer_dtype_ = c10::ScalarType::Float;
};

// Returns what such a scope casts to on this thread and device; nothing outside of all.
std::optional<c10::ScalarType> autocast_dtype(c10::DeviceType device);

}  // namespace gradsync::models
