// Communication that is timed twice: by the closed form (collective_time.h, step_schedule.h), and
// by SimGrid, in which each message of each rank is one of its own (simulated.h).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "harness/predict/collective_time.h"
#include "harness/predict/step_schedule.h"

namespace gradsync::predict::second_opinion {

struct Collective {
  Group group = Group::World;
  Operation operation = Operation::AllReduce;
  double bytes = 0;  // of the whole message
};

// A step of the profile's model.
struct Step {
  StepModel model;
  StepOptions options;
  int at_a_time = 1;  // collectives that the library works on: SimGrid's side alone
};

struct Case {
  std::string what;
  Network network;
  std::variant<Collective, Step> work;
};

// `profile`: the model whose steps are taken.
std::vector<Case> cases(const models::Profile& profile);

double closed_form_s(const Case& of);

}  // namespace gradsync::predict::second_opinion
