// Writes DIR/*.json and *.html, what a gate writes, for schema_test.py, for the tests of plot/ and
// of pages.
#include "harness/gate/page.h"
#include "harness/results/store.h"
#include "tests/harness/gate/sample_gate.h"

int main(int argc, char** argv) {
  using namespace gradsync;  // NOLINT(google-build-using-namespace): main is the program's top
  if (argc != 2) return 2;
  const std::string directory = std::string(argv[1]) + "/";
  const auto write = [&](const char* name, const gate::GateReport& report) {
    results::write_atomically(directory + name + ".json", to_json(report).dump(1) + "\n");
    results::write_atomically(directory + name + ".html", gate::gate_html(report));
  };
  write("gate", test::sample_gate());
  write("gate_counts", test::sample_counts_gate());
  write("gate_jobs", test::sample_jobs_gate());
  write("gate_long_names", test::sample_gate_with_long_names());
  return 0;
}
