// TensorBoard's event files, as far as scalars need them: a record for each step.
//
// A record is a tensorflow.Event (tensorflow/core/util/event.proto) in the framing of a TFRecord
// (tensorflow/core/lib/io/record_writer.h): its length and its bytes, each followed by a masked
// CRC-32C, little-endian. TensorBoard's own reader is what the tests read them with. No library in
// C++ writes them but TensorFlow itself.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gradsync::watch {

// Returns the record with which a file begins. `time_s`: seconds since 1970, as below.
std::string first_record(double time_s);

// Returns the record of `values`, tag and value, at a step.
std::string scalars_record(double time_s, std::int64_t step,
                           const std::vector<std::pair<std::string, double>>& values);

// Returns a name under which TensorBoard finds the file of this process.
std::string event_file_name(double time_s);

}  // namespace gradsync::watch
