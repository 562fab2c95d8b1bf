// The fields of a flag as files have them.
#pragma once

#include <tuple>

#include "harness/base/fields.h"
#include "harness/watch/judge/flags.h"

namespace gradsync::watch {

constexpr auto fields_of(const Flag*) {
  return std::tuple{field("name", &Flag::name), field("is_on_root", &Flag::is_on_root),
                    field("file", &Flag::file), field("line", &Flag::line),
                    field("on", &Flag::on),     field("off", &Flag::off)};
}

}  // namespace gradsync::watch
