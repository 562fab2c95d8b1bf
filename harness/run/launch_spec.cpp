#include "harness/run/launch_spec.h"

namespace gradsync::run {

using nlohmann::json;

json to_json(const LaunchSpec& spec) {
  json trials = json::array();
  for (const plan::Trial& trial : spec.trials) {
    trials.push_back({{"order", trial.order},
                      {"cell", trial.cell},
                      {"round", trial.round},
                      {"steps", trial.steps},
                      {"warmup_steps", trial.warmup_steps}});
  }
  return {{"trials", trials},
          {"nodes", spec.topology.nodes},
          {"ranks_per_node", spec.topology.ranks_per_node},
          {"seed", spec.seed},
          {"launch", spec.launch},
          {"timeout_s", spec.timeout_s},
          {"as_published", spec.as_published},
          {"threads_per_rank", spec.threads_per_rank},
          {"device", spec.device},
          {"backend", spec.backend},
          {"fold_from_bytes", spec.fold_from_bytes},
          {"ranks_per_host", spec.ranks_per_host},
          {"weights", spec.weights},
          {"data", spec.data}};
}

LaunchSpec launch_spec_from_json(const json& in) {
  LaunchSpec spec;
  for (const json& entry : in.at("trials")) {
    plan::Trial trial;
    trial.order = entry.at("order");
    trial.cell = plan::cell_from_json(entry.at("cell"), "launch specification");
    trial.round = entry.at("round");
    trial.steps = entry.at("steps");
    trial.warmup_steps = entry.at("warmup_steps");
    spec.trials.push_back(std::move(trial));
  }
  spec.topology.nodes = in.at("nodes");
  spec.topology.ranks_per_node = in.at("ranks_per_node");
  spec.seed = in.at("seed");
  spec.launch = in.at("launch");
  spec.timeout_s = in.at("timeout_s");
  spec.as_published = in.at("as_published");
  spec.threads_per_rank = in.at("threads_per_rank");
  spec.device = in.at("device");
  spec.backend = in.at("backend");
  spec.fold_from_bytes = in.at("fold_from_bytes");
  spec.ranks_per_host = in.at("ranks_per_host");
  spec.weights = in.at("weights");
  spec.data = in.at("data");
  return spec;
}

}  // namespace gradsync::run
