// Draws the pictures of a finished run by calling plot/plot.py.
#pragma once

#include <string>

namespace gradsync::cli {

// Writes DIR/plots/. Missing Python or matplotlib is a warning, not an error: numbers come first.
// Interpreter: GRADSYNC_PYTHON from the environment, else the one found at configuration.
void make_plots(const std::string& directory);

}  // namespace gradsync::cli
