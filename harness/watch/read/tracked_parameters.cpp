#include "harness/watch/read/tracked_parameters.h"

#include <array>
#include <tuple>
#include <utility>

#include "harness/base/fields.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

using nlohmann::json;

constexpr auto names_of(const Owner*) {
  return std::array{std::pair{Owner::None, "none"},    std::pair{Owner::Wrapper, "wrapper"},
                    std::pair{Owner::Shard, "shard"},  std::pair{Owner::Ignored, "ignored"},
                    std::pair{Owner::Added, "added"},  std::pair{Owner::Buffer, "buffer"},
                    std::pair{Owner::Frozen, "frozen"}};
}

constexpr auto names_of(const Meant*) {
  return std::array{std::pair{Meant::Nothing, "nothing"}, std::pair{Meant::Replica, "replica"},
                    std::pair{Meant::Own, "own"}, std::pair{Meant::Hooked, "hooked"},
                    std::pair{Meant::HookedCopy, "hooked_copy"}};
}

constexpr auto names_of(const Exchange::What*) {
  return std::array{std::pair{Exchange::What::Gradient, "gradient"},
                    std::pair{Exchange::What::Copy, "copy"},
                    std::pair{Exchange::What::Parameter, "parameter"},
                    std::pair{Exchange::What::OuterGradient, "outer_gradient"}};
}

constexpr auto fields_of(const TrackedParameter*) {
  return std::tuple{field("index", &TrackedParameter::index).at_least(0),
                    field("name", &TrackedParameter::name),
                    field("elements", &TrackedParameter::elements).at_least(0),
                    GRADSYNC_FIELDS(TrackedParameter, is_whole, is_constant),
                    field("is_stepped", &TrackedParameter::is_stepped).later(),
                    field("owner", &TrackedParameter::owner),
                    field("model", &TrackedParameter::model).at_least(0),
                    field("group", &TrackedParameter::group),
                    GRADSYNC_LATER_FIELDS(TrackedParameter, meant, mark, hook_file),
                    field("hook_line", &TrackedParameter::hook_line).later().at_least(0)};
}

constexpr auto fields_of(const Exchange::Member*) {
  return std::tuple{field("object", &Exchange::Member::object).at_least(1),
                    field("index", &Exchange::Member::index).at_least(0)};
}

constexpr auto fields_of(const Exchange*) {
  return std::tuple{constant("kind", "exchange"),
                    field("name", &Exchange::name).filled(),
                    field("what", &Exchange::what),
                    field("step", &Exchange::step).at_least(0),
                    field("calls", &Exchange::calls).at_least(1),
                    field("bytes", &Exchange::bytes).at_least(0),
                    GRADSYNC_FIELDS(Exchange, value, group, members),
                    field("file", &Exchange::file).later(),
                    field("line", &Exchange::line).later().at_least(0)};
}

constexpr auto fields_of(const TrackedOptimizer*) {
  return std::tuple{field("name", &TrackedOptimizer::name),
                    field("file", &TrackedOptimizer::file).later(),
                    field("line", &TrackedOptimizer::line).later().at_least(0),
                    field("gone_before", &TrackedOptimizer::gone_before).later().at_least(0),
                    GRADSYNC_FIELDS(TrackedOptimizer, hardware, parameters)};
}

constexpr auto fields_of(const HashLook*) {
  return std::tuple{field("step", &HashLook::step).at_least(0),
                    GRADSYNC_FIELDS(HashLook, is_last, values, samples),
                    field("took_s", &HashLook::took_s).at_least(0)};
}

namespace {

struct ParametersLine {
  std::int64_t object = 0;
  TrackedOptimizer optimizer;
};

struct HashesLine {
  std::int64_t object = 0;
  HashLook look;
};

constexpr auto fields_of(const ParametersLine*) {
  return std::tuple{constant("kind", "parameters"),
                    field("object", &ParametersLine::object).at_least(1),
                    beside(&ParametersLine::optimizer)};
}

constexpr auto fields_of(const HashesLine*) {
  return std::tuple{constant("kind", "hashes"), field("object", &HashesLine::object).at_least(1),
                    beside(&HashesLine::look)};
}

void add_parameters(TrackedOptimizer& known, TrackedOptimizer more) {
  more.parameters.insert(more.parameters.begin(), known.parameters.begin(), known.parameters.end());
  more.looks = std::move(known.looks);
  known = std::move(more);
}

}  // namespace

bool read_parameter_line(const json& line, const std::string& kind, const std::string& place,
                         RankEvents& events) {
  if (kind == "parameters") {
    auto read = read_only_fields<ParametersLine>(line, place);
    add_parameters(events.optimizers[read.object], std::move(read.optimizer));
  } else if (kind == "hashes") {
    auto read = read_only_fields<HashesLine>(line, place);
    events.optimizers[read.object].looks.push_back(std::move(read.look));
  } else if (kind == "exchange") {
    events.exchanges.push_back(read_only_fields<Exchange>(line, place));
  } else {
    return false;
  }
  return true;
}

}  // namespace gradsync::watch
