// A value, or the reason why there is none: what was not measured says so wherever it is taken.
//
//   Known<double> share = Unknown{"not recorded"};
//   share = 0.25;
//   if (share) print(*share); else print(share.why_not());
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace gradsync {

struct Unknown {
  std::string because;
};

template <typename Value>
class Known {
 public:
  using value_type = Value;
  Known() = default;  // not known, without a reason
  Known(Value value) : value_(std::move(value)) {}
  Known(Unknown unknown) : why_not_(std::move(unknown.because)) {}

  explicit operator bool() const { return value_.has_value(); }
  const Value& operator*() const { return *value_; }
  const Value* operator->() const { return &*value_; }
  const std::string& why_not() const { return why_not_; }  // "" where there is a value

  bool operator==(const Known&) const = default;

 private:
  std::optional<Value> value_;
  std::string why_not_;
};

}  // namespace gradsync
