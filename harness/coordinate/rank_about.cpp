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
  return std::tuple{
      GRADSYNC_FIELDS(ModelDescription, name, about, has_mixtrals_options, has_bfloat16,
                      reads_pictures, longest_sequence, checkpointable_units, highest_lora_rank,
                      chooses_attention, replays_memory),
      field("paced", &ModelDescription::compute)};
}

}  // namespace gradsync::models

namespace gradsync::coordinate {

using nlohmann::json;

GRADSYNC_FIELDS_OF(RankAbout, commit, torch, torch_folder, blas, has_gpu_module, models)

void to_json(json& out, const RankAbout& about) {
  out = write_fields(about);
}

RankAbout rank_about_from_json(const json& in, const std::string& file) {
  return read_fields<RankAbout>(in, file);
}

}  // namespace gradsync::coordinate
