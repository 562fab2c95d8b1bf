// Draws pictures of results by calling a script of plot/.
#pragma once

#include <string>

namespace gradsync::session {

// Calls plot/SCRIPT with what it draws: "plot.py" with the directory of a run, "forest.py" with a
// gate's file, "power_curve.py" with one of error rates. Each writes beside what it reads. Missing
// Python or matplotlib is a warning, not an error: numbers come first.
// Interpreter: GRADSYNC_PYTHON from the environment, else the one found at configuration.
void make_plots(const std::string& script, const std::string& argument);

}  // namespace gradsync::session
