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
  return std::tuple{field("compute", &Doubt::compute).later(), field("rate", &Doubt::rate).later(),
                    field("host", &Doubt::host).later(), field("pause", &Doubt::pause).later()};
}

constexpr auto fields_of(const LinkFile*) {
  return std::tuple{constant("schema", "gradsync.links/1"),
                    field("about", &LinkFile::about).later(),
                    field("source", &LinkFile::source),
                    field("payload_share", &LinkFile::payload_share).later(),
                    field("latency_s", &LinkFile::latency_s).later(),
                    field("collective_s", &LinkFile::collective_s).later(),
                    field("per_byte_s", &LinkFile::per_byte_s).later(),
                    field("copy_per_byte_s", &LinkFile::copy_per_byte_s).later(),
                    field("micro_batch_s", &LinkFile::micro_batch_s).later(),
                    field("processor_per_byte_s", &LinkFile::processor_per_byte_s).later(),
                    field("fill_per_byte_s", &LinkFile::fill_per_byte_s).later(),
                    field("shard_per_byte_s", &LinkFile::shard_per_byte_s).later(),
                    field("algorithm", &LinkFile::algorithm).later(),
                    field("scatters_by_all_reduce", &LinkFile::scatters_by_all_reduce).later(),
                    field("gathers_half_late", &LinkFile::gathers_half_late).later(),
                    field("shaped", &LinkFile::is_shaped).later(),
                    field("rank_spread", &LinkFile::rank_spread).later(),
                    field("doubt", &LinkFile::doubt).later()};
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
  const auto file = read_only_fields<LinkFile>(read_json_file(path), path);
  refuse_negative(path, file);
  if (!(file.payload_share > 0 && file.payload_share <= 1)) {
    throw ConfigError(path, "payload_share", std::to_string(file.payload_share),
                      "a share above 0, at most 1");
  }
  return file;
}

}  // namespace gradsync::predict
