// Writing bytes so that a failure is noticed: short writes, full disks, interruptions.
#pragma once

#include <string>
#include <string_view>

namespace gradsync::results {

// Suffix of temporaries, before the process id: "result.json.tmp-4711".
inline constexpr const char* kTemporaryMark = ".tmp-";

// Writes all of `bytes`. Returns 0 or an errno; part of it may then be written.
int write_all(int fd, std::string_view bytes);

// Throws ResultsError "PATH: cannot be ACTION: No space left on device".
[[noreturn]] void fail_write(const std::string& path, const char* action, int error);

}  // namespace gradsync::results
