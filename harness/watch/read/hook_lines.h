// The lines that the Python hook writes, one JSON object each, of which "kind" says what it is.
#pragma once

#include <string>
#include <string_view>
#include <tuple>

#include "harness/base/fields.h"
#include "harness/base/json_fields.h"

namespace gradsync::watch {

struct HookLine {
  std::string kind;
};

struct RankLine {
  int rank = -1;
  int world_size = 0;
};

struct FaultLine {
  std::string kind;  // "fault", "full"
  std::string sentence;
};

constexpr auto fields_of(const HookLine*) {
  return std::tuple{field("kind", &HookLine::kind)};
}

constexpr auto fields_of(const RankLine*) {
  return std::tuple{constant("kind", "rank"), field("rank", &RankLine::rank).at_least(0),
                    field("world_size", &RankLine::world_size).at_least(1)};
}

GRADSYNC_FIELDS_OF(FaultLine, kind, sentence)

// Calls `read(line, kind, place)` for each whole line of a file's text; `place`: what errors call
// it. Returns whether the last one is whole: its process may have been killed.
template <typename Read>
bool for_each_line(std::string_view text, const std::string& name, Read read) {
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    const std::string place = name + " line " + std::to_string(number);
    const nlohmann::json line = parse_json(text.substr(0, end), place);
    const std::string kind = read_fields<HookLine>(line, place).kind;
    if (number == 1 && kind != "start") {
      FieldPlace(place).field("kind").fail(&line, "\"start\" in the first line");
    }
    read(line, kind, place);
    text.remove_prefix(end + 1);
  }
  return true;
}

}  // namespace gradsync::watch
