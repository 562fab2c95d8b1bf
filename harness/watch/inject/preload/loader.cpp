// What LD_PRELOAD puts into every process of a job: it waits for torch, and then loads the watcher.
//
// Needs nothing but the C library, so that shells, launchers and compilers in the job carry it
// without noticing. A process with torch in its shared libraries starts a thread before it
// communicates (a store, gloo's loop, NCCL's watchdog): pthread_create is where to look whether
// torch has come. dlopen would be the place, but who calls it matters to it. A job that
// communicates past torch may never start one; there the Python hook calls
// gradsync_watch_look_for_torch.
//
// Reads GRADSYNC_WATCH_DIR, GRADSYNC_WATCH_LIBRARY (the watcher) and GRADSYNC_WATCH_TORCH (the
// libtorch_cpu.so that the watcher was compiled for). Without them it does nothing.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

constexpr const char* kTorch = "/libtorch_cpu.so";

bool is_done = false;

const char* setting(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// Leaves a sentence in the folder, for its reader. Never fails, as far as the job can tell.
__attribute__((format(printf, 2, 3))) void leave(const char* file, const char* format, ...) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", setting("GRADSYNC_WATCH_DIR"), file);
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  char sentence[PATH_MAX * 2];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  if (length > 0 && write(fd, sentence, strnlen(sentence, sizeof sentence)) < 0) {
    // There is no other place to report it.
  }
  close(fd);
}

__attribute__((format(printf, 1, 2))) void leave_fault(const char* format, ...) {
  char sentence[PATH_MAX * 2];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  char file[64];
  snprintf(file, sizeof file, "loader-%d.fault", static_cast<int>(getpid()));
  leave(file, "%s\n", sentence);
}

// For dl_iterate_phdr: keeps the path of libtorch_cpu.so, and ends the search there.
int keep_torch(dl_phdr_info* object, size_t, void* path) {
  const size_t length = strlen(object->dlpi_name);
  const size_t wanted = strlen(kTorch);
  if (length < wanted || strcmp(object->dlpi_name + length - wanted, kTorch) != 0) return 0;
  snprintf(static_cast<char*>(path), PATH_MAX, "%s", object->dlpi_name);
  return 1;
}

bool is_same_file(const char* one, const char* other) {
  char real_one[PATH_MAX];
  char real_other[PATH_MAX];
  return realpath(one, real_one) != nullptr && realpath(other, real_other) != nullptr &&
         strcmp(real_one, real_other) == 0;
}

// A watcher of another torch would read its structures wrongly: rather none at all.
void load_watcher(const char* torch) {
  const char* wanted = setting("GRADSYNC_WATCH_TORCH");
  if (!is_same_file(torch, wanted)) {
    leave_fault("it uses %s, but the watcher was built for %s", torch, wanted);
    return;
  }
  if (dlopen(setting("GRADSYNC_WATCH_LIBRARY"), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr) {
    leave_fault("the watcher cannot be loaded: %s", dlerror());
  }
}

void look_for_torch() {
  if (__atomic_load_n(&is_done, __ATOMIC_ACQUIRE)) return;
  char torch[PATH_MAX] = "";
  if (*setting("GRADSYNC_WATCH_DIR") != '\0') {
    dl_iterate_phdr(keep_torch, torch);
    if (*torch == '\0') return;
  }
  if (__atomic_exchange_n(&is_done, true, __ATOMIC_ACQ_REL)) return;
  if (*torch != '\0') load_watcher(torch);
}

__attribute__((constructor)) void begin() {
  if (*setting("GRADSYNC_WATCH_DIR") != '\0') {
    leave("reached", "%s", "");
    if (*setting("GRADSYNC_PAPER") != '\0') leave("on_paper", "%s\n", setting("GRADSYNC_PAPER"));
  }
  look_for_torch();  // a program that is linked with it
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void gradsync_watch_look_for_torch() {
  look_for_torch();
}

// Declared by hand: pthread.h has another opinion of its exceptions in every version.
extern "C" __attribute__((visibility("default"))) int pthread_create(void* thread,
                                                                     const void* attributes,
                                                                     void* (*body)(void*),
                                                                     void* argument) {
  using Create = int (*)(void*, const void*, void* (*)(void*), void*);
  static Create create = nullptr;
  if (create == nullptr) create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  look_for_torch();
  return create(thread, attributes, body, argument);
}
