// The same communication, message by message, on SimGrid's network: a link is shared by what passes
// it at a time, and a message waits until its receiver is there.
//
//   rank -- its own link --+-- the node's link -- (switch) -- ...
//
// Source of the network's model: Velho, Schnorr, Casanova and Legrand, "On the Validity of
// Flow-level TCP Network Models for Grid and Cloud Simulations", 2013. Its factors for TCP are left
// out (CM02 without cross-traffic): what a line carries of its rate is in our rates already.
#pragma once

#include <vector>

#include "tests/harness/predict/second_opinion/cases.h"

namespace gradsync::predict::second_opinion {

// Whether this was built where SimGrid is.
bool has_simgrid();

// Returns the seconds of each.   Errors: ConfigError where SimGrid is not there.   Call once.
std::vector<double> simulated_s(const std::vector<Case>& cases);

}  // namespace gradsync::predict::second_opinion
