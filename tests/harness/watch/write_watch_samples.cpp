// Writes DIR/*.json, what gradsync watch writes, for schema_test.py.
#include "harness/results/store.h"
#include "harness/watch/watched.h"
#include "tests/harness/watch/sample_jobs.h"

int main(int argc, char** argv) {
  using namespace gradsync;  // NOLINT(google-build-using-namespace): main is the program's top
  if (argc != 2) return 2;
  for (const auto& [name, processes] : test::sample_jobs()) {
    const auto json = watch::watch_json(watch::summarize(processes));
    results::write_atomically(std::string(argv[1]) + "/" + name + ".json", json.dump(1) + "\n");
  }
  return 0;
}
