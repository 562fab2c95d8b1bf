// Writes DIR/*.json, what gradsync watch writes, for schema_test.py; and what it exports of the
// same jobs, DIR/NAME.prom, DIR/NAME.jsonl and DIR/NAME/, for export/parsers_test.py.
#include "harness/results/store.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/export/exports.h"
#include "harness/watch/tell/watched_files.h"
#include "tests/harness/watch/sample_jobs.h"

int main(int argc, char** argv) {
  using namespace gradsync;  // NOLINT(google-build-using-namespace): main is the program's top
  if (argc != 2) return 2;
  for (const auto& [name, processes] : test::sample_jobs()) {
    const std::string path = std::string(argv[1]) + "/" + name;
    const auto json = watch::watch_json(watch::summarize(processes));
    results::write_atomically(path + ".json", json.dump(1) + "\n");
    watch::Exports exports({path + ".prom", "the \"" + name + "\" job\\", path, path + ".jsonl"});
    exports.finish(processes);
  }
  return 0;
}
