// What the Python hook recorded for the account: account-PID.jsonl of each process, beside its
// events. A file begins with
//
//   {"kind": "start", "schema": "gradsync.watch_account/1", "pid": 4711, "buckets": 64, "every":
//   10,
//    "share": 1.0}
//   {"kind": "rank", "rank": 0, "world_size": 2}
//
// and has, for each accounted step of an optimizer, one "parameter" line for each of its parameters
// that were sampled and then a "step" line: fields of the structs of harness/account/records.h,
// each sketch a list of 64 numbers. Files of before there were any have no comm_hook, tokens,
// places, functions, calls or is_wrapped.
// {"kind": "fault", "sentence": "..."} says what could not be recorded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/account/account_verdict.h"
#include "harness/account/records.h"

namespace gradsync::watch {

inline constexpr const char* kAccountSchema = "gradsync.watch_account/1";
inline constexpr const char* kAccountFilePrefix = "account-";  // then the process id
inline constexpr const char* kAccountFileSuffix = ".jsonl";

// Returns what a file named `name` says. A last line that is cut off is passed over: its process
// was killed.   Errors: ConfigError with name and line for what is no such line.
account::AccountRecords parse_account(std::string_view text, const std::string& name);

// Returns those of the files in `directory`; of several with one rank the one with most steps. A
// file that cannot be used is a process with a fault and nothing else.
std::vector<account::AccountRecords> read_accounts(const std::string& directory);

// Returns the account of a job, of the folders of all its hosts; nothing where none was asked for.
std::optional<account::GradientAccount> account_in(const std::vector<std::string>& directories,
                                                   const account::OtherExchanges& others);

}  // namespace gradsync::watch
