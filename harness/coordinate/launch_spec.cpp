#include "harness/coordinate/launch_spec.h"

namespace gradsync::coordinate {

using nlohmann::json;

json to_json(const plan::Trial& trial) {
  return {{"order", trial.order},
          {"cell", trial.cell},
          {"round", trial.round},
          {"steps", trial.steps},
          {"warmup_steps", trial.warmup_steps},
          {"distance_steps", trial.distance_steps}};
}

plan::Trial trial_from_json(const json& in) {
  plan::Trial trial;
  trial.order = in.at("order");
  trial.cell = plan::cell_from_json(in.at("cell"), "launch specification");
  trial.round = in.at("round");
  trial.steps = in.at("steps");
  trial.warmup_steps = in.at("warmup_steps");
  trial.distance_steps = in.at("distance_steps");
  return trial;
}

json to_json(const LaunchSpec& spec) {
  json trials = json::array();
  for (const plan::Trial& trial : spec.trials) trials.push_back(to_json(trial));
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
          {"gloo_loop_yields", spec.gloo_loop_yields},
          {"fold_from_bytes", spec.fold_from_bytes},
          {"ranks_per_host", spec.ranks_per_host},
          {"weights", spec.weights},
          {"data", spec.data},
          {"one_workload_at_a_time", spec.one_workload_at_a_time},
          {"resident", spec.resident},
          {"extra_work", spec.extra_work}};
}

LaunchSpec launch_spec_from_json(const json& in) {
  LaunchSpec spec;
  for (const json& entry : in.at("trials")) spec.trials.push_back(trial_from_json(entry));
  spec.topology.nodes = in.at("nodes");
  spec.topology.ranks_per_node = in.at("ranks_per_node");
  spec.seed = in.at("seed");
  spec.launch = in.at("launch");
  spec.timeout_s = in.at("timeout_s");
  spec.as_published = in.at("as_published");
  spec.threads_per_rank = in.at("threads_per_rank");
  spec.device = in.at("device");
  spec.backend = in.at("backend");
  spec.gloo_loop_yields = in.at("gloo_loop_yields");
  spec.fold_from_bytes = in.at("fold_from_bytes");
  spec.ranks_per_host = in.at("ranks_per_host");
  spec.weights = in.at("weights");
  spec.data = in.at("data");
  spec.one_workload_at_a_time = in.at("one_workload_at_a_time");
  spec.resident = in.at("resident");
  spec.extra_work = in.at("extra_work");
  return spec;
}

}  // namespace gradsync::coordinate
