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

constexpr auto fields_of(const LinkFile*) {
  return std::tuple{
      constant("schema", "gradsync.links/1"), field("source", &LinkFile::source),
      GRADSYNC_LATER_FIELDS(LinkFile, about, payload_share, latency_s, collective_s, per_byte_s,
                            copy_per_byte_s, micro_batch_s, processor_per_byte_s, fill_per_byte_s,
                            shard_per_byte_s, algorithm, scatters_by_all_reduce, gathers_half_late,
                            rank_spread, doubt),
      field("shaped", &LinkFile::is_shaped).later()};
}

namespace {

void refuse_negative(const std::string& path, const LinkFile& file) {
  const std::array<std::pair<const char*, double>, 13> numbers{
      {{"latency_s", file.latency_s},
       {"collective_s", file.collective_s},
       {"per_byte_s", file.per_byte_s},
       {"copy_per_byte_s", file.copy_per_byte_s},
       {"micro_batch_s", file.micro_batch_s},
       {"processor_per_byte_s", file.processor_per_byte_s},
       {"fill_per_byte_s", file.fill_per_byte_s},
       {"shard_per_byte_s", file.shard_per_byte_s},
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

LinkConstants LinkFile::constants() const {
  const HostCost host{collective_s,         per_byte_s,      copy_per_byte_s, micro_batch_s,
                      processor_per_byte_s, fill_per_byte_s, shard_per_byte_s};
  return {payload_share,          latency_s,         host,     algorithm,
          scatters_by_all_reduce, gathers_half_late, is_shaped};
}

nlohmann::json to_json(const LinkFile& file) {
  return write_fields(file);
}

LinkFile read_link_file(const std::string& path) {
  auto file = read_only_fields<LinkFile>(read_json_file(path), path);
  refuse_negative(path, file);
  if (!(file.payload_share > 0 && file.payload_share <= 1)) {
    throw ConfigError(path, "payload_share", std::to_string(file.payload_share),
                      "a share above 0, at most 1");
  }
  return file;
}

}  // namespace gradsync::predict
