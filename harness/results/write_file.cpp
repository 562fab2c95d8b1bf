#include "harness/results/write_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "harness/base/errors.h"
#include "harness/results/store.h"

namespace gradsync::results {

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

void fail_write(const std::string& path, const char* action, int error) {
  throw ResultsError(fmt::format("{}: cannot be {}: {}", path, action, std::strerror(error)));
}

namespace {

int write_temporary(const std::string& temporary, const std::string& text) {
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  int error = write_all(fd, text);
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

// A rename lasts only once the directory that holds the name is on disk.
int sync_directory_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const int fd = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

void write_atomically(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}{}{}", path, kTemporaryMark, ::getpid());
  int error = write_temporary(temporary, text);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) error = sync_directory_of(path);
  if (error == 0) return;
  ::unlink(temporary.c_str());
  fail_write(path, "written", error);
}

GrowingFile::GrowingFile(int directory, const char* name, std::string path, std::int64_t size)
    : path_(std::move(path)),
      fd_(::openat(directory, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666)),
      size_(size) {
  if (fd_ < 0) fail_write(path_, "opened", errno);
  struct stat status {};
  int error = ::fstat(fd_, &status) == 0 ? 0 : errno;
  if (error == 0 && status.st_size > size_ && ::ftruncate(fd_, size_) != 0) error = errno;
  if (error == 0 && ::lseek(fd_, size_, SEEK_SET) < 0) error = errno;
  if (error == 0) return;
  ::close(fd_);
  fail_write(path_, "opened", error);
}

GrowingFile::~GrowingFile() {
  ::close(fd_);
}

void GrowingFile::append(std::string_view bytes) {
  int error = write_all(fd_, bytes);
  if (error == 0 && ::fdatasync(fd_) != 0) error = errno;
  if (error != 0) {
    truncate_to(size_);
    fail_write(path_, "written", error);
  }
  size_ += static_cast<std::int64_t>(bytes.size());
}

void GrowingFile::truncate_to(std::int64_t size) {
  if (::ftruncate(fd_, size) != 0 || ::lseek(fd_, size, SEEK_SET) < 0) return;
  size_ = size;
}

}  // namespace gradsync::results
