// The processes of a watched job, in whatever process group or session: each has the job's folder
// of events in its environment.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace gradsync::watch {

// Returns those that live.   Cost: the environment of every process here is read, some ms.
std::vector<pid_t> processes_of(const std::string& folder);

// Ends them with SIGKILL and blocks until they are gone, a minute at most. Launchers put ranks into
// sessions of their own, and may die before them.
void kill_processes_of(const std::string& folder);

// Kills them and throws EnvironmentError where they hold more of the host's memory than is left,
// and less than a sixteenth of it is: before the kernel ends a process of its own choice. For jobs
// on GPUs of paper, whose tensors on the CPU are real; call it every half second or more often.
// Cost: 0.2 ms; more only where little is left.
void require_host_memory(const std::string& folder);

}  // namespace gradsync::watch
