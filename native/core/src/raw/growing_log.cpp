#include "raw/growing_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "raw/log.h"

namespace warpline {

namespace {

constexpr std::size_t kBufferWords = std::size_t{1} << 16;  // one more than any record has

}  // namespace

GrowingLog::GrowingLog(const std::string &path)
    : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat facts {};
  if (file_ >= 0 && (fstat(file_, &facts) != 0 || !S_ISREG(facts.st_mode))) {
    close(file_);
    file_ = -1;
  }
}

GrowingLog::~GrowingLog() {
  if (file_ >= 0) close(file_);
}

bool GrowingLog::read_header() {
  struct stat facts {};
  if (read_file(file_, 0, &header_, sizeof header_) != sizeof header_) return false;
  // After the header: what it counts is in the file by then.
  if (fstat(file_, &facts) != 0) return false;
  const auto size = static_cast<uint64_t>(facts.st_size);
  const auto is_place = [&](uint64_t bytes) {
    return bytes % 8 == 0 && bytes >= raw::kHeaderBytes && bytes <= size;
  };
  return std::memcmp(header_.magic, raw::kMagic, sizeof raw::kMagic) == 0 &&
         header_.version == raw::kVersion && header_.header_bytes == raw::kHeaderBytes &&
         (header_.first_bytes == 0 || is_place(header_.first_bytes)) && is_place(header_.used_bytes);
}

int64_t GrowingLog::first() const {
  return header_.first_bytes == 0 ? int64_t{raw::kHeaderBytes} : static_cast<int64_t>(header_.first_bytes);
}

std::size_t GrowingLog::fill(int64_t at, int64_t end) const {
  const auto left = static_cast<std::size_t>(end - at);
  return read_file(file_, at, buffer(), std::min(left, kBufferWords * 8)) / 8;
}

uint64_t *GrowingLog::buffer() {
  static thread_local std::vector<uint64_t> words(kBufferWords);
  return words.data();
}

}  // namespace warpline
