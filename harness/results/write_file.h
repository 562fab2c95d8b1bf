// Writing bytes so that a failure is noticed: short writes, full disks, interruptions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gradsync::results {

// Suffix of temporaries, before the process id: "result.json.tmp-4711".
inline constexpr const char* kTemporaryMark = ".tmp-";

// Writes all of `bytes`. Returns 0 or an errno; part of it may then be written.
int write_all(int fd, std::string_view bytes);

// Throws ResultsError "PATH: cannot be ACTION: No space left on device".
[[noreturn]] void fail_write(const std::string& path, const char* action, int error);

// A file that grows at its end and nowhere else. Errors: ResultsError.
class GrowingFile {
 public:
  // Opens the file `name` of an open directory, made where there is none, and cuts off what it has
  // beyond `size` bytes; `path` is what messages call it.
  GrowingFile(int directory, const char* name, std::string path, std::int64_t size);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // Adds `bytes`. Blocks: until the disk has them. After an error the file ends where it did.
  void append(std::string_view bytes);

  // Cuts off what is beyond `size` bytes, if possible: it may fail silently.
  void truncate_to(std::int64_t size);

  std::int64_t size() const { return size_; }

 private:
  std::string path_;
  int fd_;
  std::int64_t size_;
};

}  // namespace gradsync::results
