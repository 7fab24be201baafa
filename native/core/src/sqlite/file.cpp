#include "sqlite/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "failure.h"
#include "sqlite/big_endian.h"
#include "warpline_core.h"

namespace warpline {
namespace {

constexpr uint64_t kHeaderBytes = 100;
constexpr char kMagic[] = "SQLite format 3";  // 16 bytes with its NUL
constexpr uint32_t kMinUsable = 480;
constexpr uint8_t kNewestReadVersion = 2;  // 1: rollback journal, 2: write-ahead log
constexpr uint32_t kUtf8 = 1;

constexpr std::size_t kPageSizeAt = 16;
constexpr std::size_t kReadVersionAt = 19;
constexpr std::size_t kReservedAt = 20;
constexpr std::size_t kChangeCounterAt = 24;
constexpr std::size_t kEncodingAt = 56;

std::string system_error_text(const char *action) {
  return std::string(action) + ": " + std::strerror(errno);
}

}  // namespace

void throw_corrupt(uint32_t page, const std::string &what) {
  throw Failure(WL_CORRUPT, "page " + std::to_string(page) + ": " + what);
}

SqliteFile::SqliteFile(const char *path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  descriptor_ = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw Failure(WL_IO, system_error_text("cannot open"));
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) throw Failure(WL_IO, system_error_text("cannot stat"));
    if (!S_ISREG(status.st_mode)) throw Failure(WL_IO, "not a regular file");
    const auto file_bytes = static_cast<uint64_t>(status.st_size);
    if (file_bytes < kHeaderBytes) throw Failure(WL_CORRUPT, "shorter than a database header");
    uint8_t header[kHeaderBytes];
    read_exactly(0, kHeaderBytes, header);
    parse_header(header, file_bytes);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SqliteFile::~SqliteFile() { ::close(descriptor_); }

void SqliteFile::parse_header(const uint8_t *header, uint64_t file_bytes) {
  if (std::memcmp(header, kMagic, sizeof kMagic) != 0) throw Failure(WL_CORRUPT, "not SQLite");
  const uint32_t stored = load_be16(header + kPageSizeAt);
  page_size_ = stored == 1 ? 65536 : stored;
  if (page_size_ < 512 || (page_size_ & (page_size_ - 1)) != 0) {
    throw Failure(WL_CORRUPT, "header: page size " + std::to_string(page_size_));
  }
  usable_size_ = page_size_ - header[kReservedAt];
  if (usable_size_ < kMinUsable) throw Failure(WL_CORRUPT, "header: usable page size too small");
  if (header[kReadVersionAt] > kNewestReadVersion) {
    throw Failure(WL_UNSUPPORTED, "header: a newer file format");
  }
  const uint32_t encoding = load_be32(header + kEncodingAt);
  if (encoding > kUtf8) throw Failure(WL_UNSUPPORTED, "header: text is not UTF-8");
  const uint64_t pages = file_bytes / page_size_;
  page_count_ = static_cast<uint32_t>(
      std::min<uint64_t>(pages, std::numeric_limits<uint32_t>::max() - 1));
  change_counter_ = load_be32(header + kChangeCounterAt);
}

void SqliteFile::read_exactly(uint64_t offset, uint64_t bytes, uint8_t *out) const {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Failure(WL_IO, system_error_text("cannot read"));
    if (got == 0) throw Failure(WL_CHANGED, "the file was truncated while it was read");
    out += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
}

void SqliteFile::read_pages(uint32_t first, uint32_t count, uint8_t *out) const {
  read_exactly(uint64_t{first - 1} * page_size_, uint64_t{count} * page_size_, out);
}

void SqliteFile::check_unchanged() const {
  uint8_t counter[4];
  read_exactly(kChangeCounterAt, sizeof counter, counter);
  if (load_be32(counter) != change_counter_) {
    throw Failure(WL_CHANGED, "another program modified the file");
  }
}

}  // namespace warpline
