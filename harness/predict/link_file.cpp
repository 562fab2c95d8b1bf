#include "harness/predict/link_file.h"

#include <array>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/json_fields.h"

namespace gradsync::predict {

constexpr auto names_of(const Algorithm*) {
  return std::array{std::pair{Algorithm::Ring, "ring"}, std::pair{Algorithm::Tree, "tree"},
                    std::pair{Algorithm::TwoLevel, "two_level"}};
}

constexpr auto fields_of(const Doubt*) {
  return std::tuple{GRADSYNC_LATER_FIELDS(Doubt, compute, rate, host, pause)};
}

constexpr auto fields_of(const HostCost*) {
  return std::tuple{GRADSYNC_LATER_FIELDS(HostCost, collective_s, per_byte_s, copy_per_byte_s,
                                          micro_batch_s, processor_per_byte_s, fill_per_byte_s,
                                          shard_per_byte_s)};
}

constexpr auto fields_of(const LinkConstants*) {
  return std::tuple{beside(&LinkConstants::host),
                    GRADSYNC_LATER_FIELDS(LinkConstants, payload_share, latency_s, algorithm,
                                          scatters_by_all_reduce, gathers_half_late),
                    field("shaped", &LinkConstants::is_shaped).later()};
}

constexpr auto fields_of(const LinkFile*) {
  return std::tuple{constant("schema", "gradsync.links/1"), field("source", &LinkFile::source),
                    GRADSYNC_LATER_FIELDS(LinkFile, about, rank_spread, doubt),
                    beside(&LinkFile::constants)};
}

namespace {

void refuse_negative(const std::string& path, const LinkFile& file) {
  const HostCost& host = file.constants.host;
  const std::array<std::pair<const char*, double>, 13> numbers{
      {{"latency_s", file.constants.latency_s},
       {"collective_s", host.collective_s},
       {"per_byte_s", host.per_byte_s},
       {"copy_per_byte_s", host.copy_per_byte_s},
       {"micro_batch_s", host.micro_batch_s},
       {"processor_per_byte_s", host.processor_per_byte_s},
       {"fill_per_byte_s", host.fill_per_byte_s},
       {"shard_per_byte_s", host.shard_per_byte_s},
       {"rank_spread", file.rank_spread},
       {"doubt.compute", file.doubt.compute},
       {"doubt.rate", file.doubt.rate},
       {"doubt.host", file.doubt.host},
       {"doubt.pause", file.doubt.pause}}};
  for (const auto& [name, value] : numbers) {
    if (value < 0) throw ConfigError(path, name, std::to_string(value), "a number, at least 0");
  }
}

}  // namespace

nlohmann::json to_json(const LinkFile& file) {
  return write_fields(file);
}

LinkFile read_link_file(const std::string& path) {
  if (path.empty()) return {};
  auto file = read_only_fields<LinkFile>(read_json_file(path), path);
  refuse_negative(path, file);
  const double share = file.constants.payload_share;
  if (!(share > 0 && share <= 1)) {
    throw ConfigError(path, "payload_share", std::to_string(share), "a share above 0, at most 1");
  }
  return file;
}

}  // namespace gradsync::predict
