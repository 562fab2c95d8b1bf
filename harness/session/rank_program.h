// The program of a rank, and questions that only it can answer: this program has no torch.
#pragma once

#include <string>
#include <vector>

#include "harness/coordinate/rank_about.h"
#include "harness/launch/task_place.h"

namespace gradsync::session {

// Returns the command that starts a rank: of what GRADSYNC_RANK in the environment names; else of
// gradsync-rank beside this program; else of the one there, of an installed program, that is built
// for the torch of the active Python (GRADSYNC_PYTHON, else python3), with that torch's libraries.
// Errors: EnvironmentError where there is none; it says what works without.
std::vector<std::string> rank_command();

// Returns the rank program's description of itself. It is asked once, which takes as long as
// torch's start.
// Errors: as rank_command(); EnvironmentError where it does not start, or is of another build.
const coordinate::RankAbout& about_ranks();

// Returns the version of torch that ranks have; of this build's headers where none can run.
// Errors: as about_ranks().
std::string torch_of_ranks();

// Returns the models that a plan may name: those of about_ranks(), or, where no rank program is
// there, the suite's. Errors: EnvironmentError, as about_ranks().
std::vector<models::ModelDescription> known_models();

// Returns what a plan must know about a model that it names, or about the profile at that path.
// Asks the rank program where the suite has no such model: it may be linked in. Errors: ConfigError
// naming the models there are, or what is wrong with the profile.
models::ModelDescription find_model(const std::string& name);

// torchrun's own store, at the task's MASTER_ADDR:MASTER_PORT, where the tasks of a job tell each
// other what cannot be known beforehand. `get` blocks until another task has set `key`.
// Errors: EnvironmentError where no store answers within `timeout_s`.
std::string get_from_agent_store(const launch::TaskPlace& place, double timeout_s,
                                 const std::string& key);
void set_in_agent_store(const launch::TaskPlace& place, double timeout_s, const std::string& key,
                        const std::string& value);

}  // namespace gradsync::session
