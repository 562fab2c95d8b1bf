#include "harness/coordinate/rank_about.h"

#include "harness/base/json_fields.h"

namespace gradsync::coordinate {

using models::Compute;
using models::ModelDescription;
using nlohmann::json;

namespace {

json model_to_json(const ModelDescription& model) {
  return {{"name", model.name},
          {"about", model.about},
          {"paced", model.compute == Compute::Paced},
          {"has_mixtrals_options", model.has_mixtrals_options}};
}

ModelDescription model_from_json(const json& in, const std::string& file) {
  JsonFields fields(in, file, "models.");
  ModelDescription model{fields.string("name"), fields.string("about"),
                         fields.boolean("paced") ? Compute::Paced : Compute::Real,
                         fields.boolean("has_mixtrals_options")};
  fields.finish();
  return model;
}

}  // namespace

void to_json(json& out, const RankAbout& about) {
  out = {{"commit", about.commit},
         {"torch", about.torch},
         {"blas", about.blas},
         {"has_gpu_module", about.has_gpu_module},
         {"models", json::array()}};
  for (const ModelDescription& model : about.models) out["models"].push_back(model_to_json(model));
}

RankAbout rank_about_from_json(const json& in, const std::string& file) {
  JsonFields fields(in, file);
  RankAbout about;
  about.commit = fields.string("commit");
  about.torch = fields.string("torch");
  about.blas = fields.string("blas");
  about.has_gpu_module = fields.boolean("has_gpu_module");
  for (const json& model : fields.raw("models", true)) {
    about.models.push_back(model_from_json(model, file));
  }
  fields.finish();
  return about;
}

}  // namespace gradsync::coordinate
