#include "models/autocast.h"

#include <ATen/autocast_mode.h>

namespace gradsync::models {

AutocastScope::AutocastScope(c10::DeviceType device, std::optional<c10::ScalarType> dtype)
    : device_(device), changes_(dtype.has_value()) {
  if (!changes_) return;
  outer_enabled_ = at::autocast::is_autocast_enabled(device);
  outer_dtype_ = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_dtype(device, *dtype);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!changes_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, outer_enabled_);
  at::autocast::set_autocast_dtype(device_, outer_dtype_);
}

std::optional<c10::ScalarType> autocast_dtype(c10::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return std::nullopt;
  return at::autocast::get_autocast_dtype(device);
}

}  // namespace gradsync::models
