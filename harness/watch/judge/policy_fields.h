// The fields of a policy as files have them.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "harness/base/fields.h"
#include "harness/watch/judge/policies.h"

namespace gradsync::watch {

constexpr auto names_of(const When*) {
  return std::array{std::pair{When::EachMicroBatch, "each_micro_batch"},
                    std::pair{When::ReplicasAtTheEnd, "replicas_at_the_end"},
                    std::pair{When::AllAtTheEnd, "all_at_the_end"}};
}

constexpr auto fields_of(const Policy*) {
  return std::tuple{field("when", &Policy::when), field("held_bytes", &Policy::held_bytes),
                    field("parameter_bytes", &Policy::parameter_bytes).later(),
                    field("saved_s", &Policy::saved_s)};
}

}  // namespace gradsync::watch
