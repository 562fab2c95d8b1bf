#include "harness/coordinate/rank_about.h"

#include "harness/base/fields.h"

namespace gradsync::models {

nlohmann::json field_to_json(const Compute& compute) {
  return compute == Compute::Paced;
}
void field_from_json(const nlohmann::json& in, Compute& compute, const FieldPlace& place) {
  compute = fields_detail::boolean_from(in, place) ? Compute::Paced : Compute::Real;
}

constexpr auto fields_of(const ModelDescription*) {
  return std::tuple{field("name", &ModelDescription::name),
                    field("about", &ModelDescription::about),
                    field("paced", &ModelDescription::compute),
                    field("has_mixtrals_options", &ModelDescription::has_mixtrals_options),
                    field("checkpointable_units", &ModelDescription::checkpointable_units)};
}

}  // namespace gradsync::models

namespace gradsync::coordinate {

using nlohmann::json;

constexpr auto fields_of(const RankAbout*) {
  return std::tuple{field("commit", &RankAbout::commit), field("torch", &RankAbout::torch),
                    field("blas", &RankAbout::blas),
                    field("has_gpu_module", &RankAbout::has_gpu_module),
                    field("models", &RankAbout::models)};
}

void to_json(json& out, const RankAbout& about) {
  out = write_fields(about);
}

RankAbout rank_about_from_json(const json& in, const std::string& file) {
  return read_fields<RankAbout>(in, file);
}

}  // namespace gradsync::coordinate
