// What NCCL of paper tells under NCCL_DEBUG, in NCCL's form, to where NCCL_DEBUG_FILE says (%h: the
// host, %p: the process) or to stdout. Each line says " (paper)" at its end.
#pragma once

#include <sstream>
#include <string>

namespace gradsync::paper::nccl {

void log_line(int device, const char* level, const std::string& line);
void log_warning(const std::string& line);
bool logs_info();

// Writes the parts one after the other, as a line of NCCL_DEBUG=INFO.
template <typename... Parts>
void log_info(int device, const Parts&... parts) {
  if (!logs_info()) return;
  std::ostringstream line;
  (line << ... << parts);
  log_line(device, "INFO", line.str());
}

// Returns the name by which NCCL knows this host: NCCL_HOSTID, or the host's name.
std::string host_identity();

}  // namespace gradsync::paper::nccl
