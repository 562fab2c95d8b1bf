#include "harness/base/messages.h"

#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::messages_detail {

void refuse(const nlohmann::json& in, std::string_view from, const std::string& why) {
  throw InternalError(fmt::format("{} said what is no message: {} ({})", from, quote(in), why));
}

bool says(const nlohmann::json& in, const ConstantField& name) {
  if (!in.is_object()) return false;
  const auto found = in.find(name.name);
  return found != in.end() && *found == name.value;
}

}  // namespace gradsync::messages_detail
