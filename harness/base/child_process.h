// What starting another program and waiting for its end takes everywhere. POSIX alone.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace gradsync {

// Returns what posix_spawn and exec take for arguments or an environment: a pointer to each string,
// then null. `strings` must outlive it; who takes it changes none of them.
std::vector<char*> pointers_to(const std::vector<std::string>& strings);

// Returns waitpid's status once the child has ended; nothing where it has not within `timeout_s`.
std::optional<int> wait_for_end(pid_t pid, double timeout_s);

// "exited with status 3", "was killed by signal 9 (Killed)": such a status in words.
std::string describe_end(int wait_status);

}  // namespace gradsync
