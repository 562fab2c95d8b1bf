#include "tests/harness/memory/step_memory/subjects.h"

#include "harness/base/clock.h"
#include "models/bert.h"
#include "models/footprints.h"
#include "models/mixtral.h"
#include "models/mlp.h"
#include "models/paced.h"

namespace gradsync::test {

using models::Footprint;
using models::MicroBatchShape;
using models::UnitLevers;

namespace {

models::BertConfig small_bert() {
  return {.layers = 3,
          .hidden = 24,
          .heads = 3,
          .intermediate = 56,
          .vocabulary = 211,
          .positions = 40};
}

// 5 experts do not divide the choices, so some see a token more.
models::MixtralConfig small_mixtral() {
  return {.layers = 3,
          .hidden = 48,
          .heads = 4,
          .key_value_heads = 2,
          .intermediate = 72,
          .experts = 5,
          .vocabulary = 211};
}

models::Profile small_profile() {
  return {.name = "small",
          .about = "",
          .layers = {{"a", 0, 0, {{"a.w", {7, 30}}, {"a.b", {11}}}},
                     {"b", 0, 0, {}},
                     {"c", 0, 0, {{"c.w", {300}}}}},
          .optimizer_s = 0,
          .buffers = {{"positions", {64}}, {"types", {5}}},
          .memory = {}};
}

// The same, as if recorded: what c makes its backward lets go in part, and a's keeps the rest.
models::Profile recorded_profile() {
  using Kind = models::PassEvent::Kind;
  models::Profile profile = small_profile();
  models::MemoryProfile& memory = profile.memory.emplace();
  memory.dtype = "float32";
  for (const models::ProfileLayer& layer : profile.layers) {
    for (const models::ProfileTensor& tensor : layer.parameters) {
      memory.parameters.push_back({tensor.name, tensor.shape});
    }
  }
  for (const char* name : {"", "a", "b", "c"}) memory.modules.push_back({name, "Layer"});
  memory.forward = {{Kind::Enter, 0},
                    {Kind::Hold, 0, 700, 300},
                    {Kind::Enter, 1},
                    {Kind::Hold, 0, 4000, 1000},
                    {Kind::Leave, 1},
                    {Kind::Enter, 3},
                    {Kind::Hold, 0, 9000, 8000},
                    {Kind::Hold, 0, 60, -500}};
  memory.backward_first = {{Kind::Hold, 0, 5000, -2000}, {Kind::Gradient, 2, 0, 1200},
                           {Kind::Hold, 0, 3000, -1000}, {Kind::Gradient, 1, 0, 44},
                           {Kind::Hold, 0, 2000, -1500}, {Kind::Gradient, 0, 0, 840},
                           {Kind::Hold, 0, 6000, -2216}};
  return profile;
}

}  // namespace

std::vector<Subject> subjects() {
  return {{"mlp", [](const UnitLevers&) { return std::make_shared<models::Mlp>(1, at::kCPU); },
           models::mlp_footprint},
          {"bert",
           [](const UnitLevers& levers) {
             return std::make_shared<models::BertForSequenceClassification>(small_bert(), 1,
                                                                            at::kCPU, levers.lora);
           },
           [](const MicroBatchShape& shape, const UnitLevers& levers) {
             return *bert_footprint(small_bert(), shape, levers);
           }},
          {"mixtral",
           [](const UnitLevers&) {
             models::ModelOptions options;
             options.balanced_routing = true;
             return std::make_shared<models::MixtralForCausalLM>(small_mixtral(), options);
           },
           [](const MicroBatchShape& shape, const UnitLevers& levers) {
             return mixtral_footprint(small_mixtral(), shape, levers);
           }},
          {"paced",
           [](const UnitLevers&) {
             return std::make_shared<models::PacedModel>(
                 small_profile(), 2, models::host_pace(steady_clock()), at::kCPU);
           },
           [](const MicroBatchShape&, const UnitLevers&) {
             return paced_footprint(small_profile(), 2);
           }},
          {"paced replay",
           [](const UnitLevers&) {
             return std::make_shared<models::PacedModel>(
                 recorded_profile(), 1, models::host_pace(steady_clock()), at::kCPU);
           },
           [](const MicroBatchShape&, const UnitLevers&) {
             return paced_footprint(recorded_profile(), 1);
           }}};
}

std::vector<Subject> subjects_with_units() {
  std::vector<Subject> some = subjects();
  std::erase_if(some, [](const Subject& subject) { return subject.name.starts_with("paced"); });
  return some;
}

Subject bert() {
  std::vector<Subject> all = subjects();
  std::erase_if(all, [](const Subject& subject) { return subject.name != "bert"; });
  return all.at(0);
}

Subject bert_with_sdpa() {
  const auto config = [] {
    models::BertConfig sdpa = small_bert();
    sdpa.attention = models::AttentionImplementation::Sdpa;
    return sdpa;
  };
  return {"bert with sdpa",
          [=](const UnitLevers& levers) {
            return std::make_shared<models::BertForSequenceClassification>(config(), 1, at::kCPU,
                                                                           levers.lora);
          },
          [=](const MicroBatchShape& shape, const UnitLevers& levers) {
            return *bert_footprint(config(), shape, levers);
          }};
}

int most_frozen(const Subject& subject) {
  return subject.name == "mlp" ? 2 : 3;
}

}  // namespace gradsync::test
