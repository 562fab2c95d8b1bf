#include "harness/base/whole_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "harness/base/errors.h"

namespace gradsync {
namespace {

constexpr const char* kGzipMagic = "\x1f\x8b";  // RFC 1952, section 2.3.1
constexpr int kGzipWindow = 16 + MAX_WBITS;     // zlib's way to ask for gzip's header and checksum

Bytef* bytes_of(const std::string& text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib's, older than const
}

std::string unpacked(const std::string& bytes, const std::string& path) {
  z_stream stream{};
  GRADSYNC_CHECK(inflateInit2(&stream, kGzipWindow), ==, Z_OK);
  stream.next_in = bytes_of(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string text;
  std::array<char, 1 << 16> part{};
  int status = Z_OK;
  while (status == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = part.size();
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(part.data(), part.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || stream.avail_in != 0) {
    throw ConfigError(fmt::format("{}: cannot be read: it is packed by gzip and damaged", path));
  }
  return text;
}

}  // namespace

std::string whole_file(const std::string& path) {
  const auto refuse = [&path] {
    throw ConfigError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse();
  std::string text;
  try {
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  } catch (const std::ios_base::failure&) {  // a directory, a failing disk
    refuse();
  }
  return text.starts_with(kGzipMagic) ? unpacked(text, path) : text;
}

std::string packed(const std::string& bytes) {
  z_stream stream{};
  GRADSYNC_CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, MAX_MEM_LEVEL,
                              Z_DEFAULT_STRATEGY),
                 ==, Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = bytes_of(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = bytes_of(out);
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.erase(stream.total_out);
  deflateEnd(&stream);
  GRADSYNC_CHECK(status, ==, Z_STREAM_END);
  return out;
}

}  // namespace gradsync
