#include "harness/arms/arm_protocol.h"

#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/base/messages.h"
#include "harness/results/result_fields.h"

namespace gradsync::arms {

using nlohmann::json;

namespace {

// What every hello has, whatever its version.
struct ArmSchema {
  std::string schema;
};

constexpr auto fields_of(const ArmSchema*) {
  return std::tuple{field("schema", &ArmSchema::schema)};
}

}  // namespace

constexpr auto fields_of(const ArmLaunch*) {
  return std::tuple{GRADSYNC_FIELDS(ArmLaunch, part, topology, scale, cells)};
}

constexpr auto fields_of(const ArmHello*) {
  return std::tuple{constant("event", "hello"), constant("schema", kArmSchema),
                    GRADSYNC_FIELDS(ArmHello, build, launches)};
}

constexpr auto fields_of(const ArmTurn*) {
  return std::tuple{GRADSYNC_FIELDS(ArmTurn, cell, warmup_steps, steps)};
}

constexpr auto fields_of(const ArmRequest*) {
  return std::tuple{GRADSYNC_SPARED_FIELDS(ArmRequest, open, turn, close)};
}

constexpr auto fields_of(const ArmOpened*) {
  return std::tuple{constant("event", "opened"), field("launch", &ArmOpened::launch).later()};
}

constexpr auto fields_of(const ArmRan*) {
  return std::tuple{constant("event", "trial"), field("trial", &ArmRan::trial)};
}

constexpr auto fields_of(const ArmClosed*) {
  return std::tuple{constant("event", "closed")};
}

constexpr auto fields_of(const ArmFailure*) {
  return std::tuple{constant("event", "failed"), GRADSYNC_FIELDS(ArmFailure, status, reason)};
}

constexpr auto fields_of(const ArmBusy*) {
  return std::tuple{constant("event", "busy")};
}

json to_json(const ArmHello& hello) {
  return write_fields(hello);
}

json to_json(const ArmRequest& request) {
  return write_fields(request);
}

json to_json(const ArmAnswer& answer) {
  return std::visit([](const auto& said) { return write_fields(said); }, answer);
}

ArmHello arm_hello(const json& line, const std::string& from) {
  const std::string schema = read_fields<ArmSchema>(line, from).schema;
  if (schema != kArmSchema) {
    throw ConfigError(from, "schema", quote(schema),
                      fmt::format("\"{}\": both builds must speak it", kArmSchema));
  }
  ArmHello hello = read_fields<ArmHello>(line, from);
  const FieldPlace file(from);
  const FieldPlace launches = file.field("launches");
  if (hello.launches.empty()) launches.fail(nullptr, "a list of launches");
  for (std::size_t i = 0; i < hello.launches.size(); ++i) {
    if (!hello.launches[i].cells.empty()) continue;
    launches.item(i).field("cells").fail(nullptr, "a list with at least one cell");
  }
  return hello;
}

ArmRequest arm_request(const json& line) {
  const ArmRequest request = read_fields<ArmRequest>(line, "request");
  if (request.open || request.turn || request.close) return request;
  throw ConfigError(fmt::format("request: got {}, expected open, turn or close", line.dump()));
}

ArmAnswer arm_answer(const json& line, const std::string& from) {
  try {
    return read_message<ArmAnswer>(line, from);
  } catch (const InternalError& error) {  // the other end may be of any build
    throw ConfigError(error.what());
  }
}

}  // namespace gradsync::arms
