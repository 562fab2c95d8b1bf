// The changes to the environment of a job that let the watcher record it.
#pragma once

#include <string>

#include "harness/launch/task_place.h"
#include "harness/watch/inject/job_torch.h"
#include "harness/watch/inject/preload_library.h"

namespace gradsync::watch {

using launch::EnvironmentChanges;

// The variable that asks for an account, in every process of a job: "EVERY SHARE".
inline constexpr const char* kAccountVariable = "GRADSYNC_WATCH_ACCOUNT";

// The variable that asks for the seconds of GPUs, in every process of a job; with any value.
inline constexpr const char* kSecondsVariable = "GRADSYNC_WATCH_SECONDS";
// The first steps, in the last of which it is done (hook/gradsync_watch_seconds.py).
inline constexpr int kStepsForSeconds = 7;

// The variable that names the folder of events, in every process of a watched job.
inline constexpr const char* kFolderVariable = "GRADSYNC_WATCH_DIR";

// Return where that torch's libtorch_cpu.so is, and the folder of the Python hook.
std::string torch_library(const JobTorch& torch);
std::string hook_directory();

// Returns the changes that let the processes of a job record into `folder`, on top of what our own
// environment preloads and imports.
// Errors: std::filesystem::filesystem_error where `folder` cannot be written.
EnvironmentChanges watching(const JobTorch& torch, const PreloadLibrary& library,
                            const std::string& folder);

// Returns the changes that give a job a free port as the place of its rendezvous, where its command
// names none: others may run beside it.
EnvironmentChanges own_port();

}  // namespace gradsync::watch
