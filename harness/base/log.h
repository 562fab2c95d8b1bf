// Messages for people, on stderr; stdout is for results alone. `--quiet` leaves only errors.
#pragma once

#include <string>

namespace gradsync::log {

// Call once at start. Colour only where stderr is a terminal and NO_COLOR is unset.
void configure(bool quiet);

void info(const std::string& message);
void warn(const std::string& message);   // "warn: ..."; say the remedy too
void error(const std::string& message);  // "error: ..."

}  // namespace gradsync::log
