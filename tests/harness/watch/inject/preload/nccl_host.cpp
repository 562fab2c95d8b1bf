// Loads libraries as Python loads modules (local) or as a program has its own (global), and runs
// the job of each that has one, in turn.   usage: nccl_host local|global JOB LIBRARY...
#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 3) return 2;
  const int scope = words[0] == "local" ? RTLD_LOCAL : RTLD_GLOBAL;
  for (std::size_t i = 2; i < words.size(); ++i) {
    void* library = ::dlopen(words[i].c_str(), RTLD_LAZY | scope);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", ::dlerror());
      return 1;
    }
    if (void* job = ::dlsym(library, "run_job")) {
      reinterpret_cast<void (*)(const char*)>(job)(words[1].c_str());
    }
  }
  return 0;
}
