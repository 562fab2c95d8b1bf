// A training command, run as it would run without us.
//
// It shares our standard streams, our process group and so our terminal: Ctrl-C and Ctrl-Z reach it
// from there. What is sent to us alone is passed on, and we outlive it to say what was seen.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/launch/unique_fd.h"
#include "harness/watch/inject/environment.h"

namespace gradsync::watch {

// Runs `command`, looked up in PATH, with `changes` on top of our environment. Calls `look` every
// half second. Returns its exit status as a shell gives it: 128 + its number after a signal, 127
// where there is no such program and 126 where it is none (an error is then printed). Blocks. Call
// once: the signals SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are its own afterwards.
int run_watched_job(const std::vector<std::string>& command, const EnvironmentChanges& changes,
                    const std::function<void()>& look);

// Returns the libraries to preload into a job with this torch: those that came with the program, or
// else built where there are none yet: in the cache, or where the environment names none in
// `folder`.   Errors: as PreloadBuild.
watch::PreloadLibrary library_for(const watch::JobTorch& torch, const std::string& folder);

// Where the processes of a job write what happens to them.
class EventFolder {
 public:
  // `keep`: a new or empty folder that stays; "": one of our own in TMPDIR or /tmp, removed at the
  // end, as are now those that others of this user left there when they were killed.
  // Errors: ConfigError where `keep` holds something, EnvironmentError where it cannot be made.
  explicit EventFolder(const std::string& keep);
  ~EventFolder();
  EventFolder(const EventFolder&) = delete;
  EventFolder& operator=(const EventFolder&) = delete;

  const std::string& path() const { return path_; }  // absolute

 private:
  void make_kept(const std::string& keep);
  void make_temporary();

  std::string path_;
  bool is_kept_;
  launch::UniqueFd lock_;  // of a temporary one: it is in use
};

}  // namespace gradsync::watch
