#include <fmt/format.h>

#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/pages.h"

namespace gradsync::watch {

namespace {

// "2,1000": count and bytes of an operation, bytes empty where they are not known.
std::string cells_of(const OpSums& sums, const std::string& op) {
  const OpSum sum = sum_of(sums, op);
  return fmt::format("{},{}", sum.count, sum.bytes ? std::to_string(*sum.bytes) : "");
}

}  // namespace

std::string watch_csv(const Watched& watched) {
  std::string text = "operation,count,bytes,enough_count,enough_bytes,excess_count,excess_bytes\n";
  if (!watched.typical) return text;
  const bool knows_enough = knows_what_is_enough(watched);
  for (const auto& [op, sum] : watched.typical->collectives) {
    text += fmt::format("{},{},{},{}\n", op, cells_of(watched.typical->collectives, op),
                        knows_enough ? cells_of(watched.typical->ideal, op) : ",",
                        knows_enough ? cells_of(watched.typical->excess, op) : ",");
  }
  return text;
}

}  // namespace gradsync::watch
