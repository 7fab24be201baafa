#include "raw/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "failure.h"
#include "warpline_core.h"

namespace warpline {

namespace {

constexpr std::size_t kWindowWords = std::size_t{1} << 17;  // 1 MiB: more than any record

}  // namespace

std::size_t read_file(int file, int64_t offset, void *room, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(file, static_cast<char *>(room) + done, bytes - done,
                              static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

bool is_unwritten(const std::string &path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  struct stat facts {};
  const bool is_file = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
  uint64_t magic = 0;
  uint64_t record = 0;
  read_file(file, offsetof(raw::LogHeader, magic), &magic, sizeof magic);
  read_file(file, int64_t{raw::kHeaderBytes}, &record, sizeof record);
  close(file);
  // A file that has grown had records, whatever became of them.
  const bool has_grown = facts.st_size > static_cast<int64_t>(raw::kFirstBlockEnd);
  return is_file && magic == 0 && record == 0 && !has_grown;
}

RawLog::RawLog(const std::string &path) {
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) throw Failure(WL_IO, std::strerror(errno));
  struct stat facts {};
  const bool is_file = fstat(file_, &facts) == 0 && S_ISREG(facts.st_mode);
  char page[sizeof(raw::LogHeader)];
  const bool is_read = is_file && read_at(0, page, sizeof page) == sizeof page;
  // After the header: what it counts is in the file by then, even if a living writer goes on.
  if (!is_read || fstat(file_, &facts) != 0) {
    close(file_);
    throw Failure(WL_CORRUPT, is_file ? "shorter than a log header" : "not a file");
  }
  size_ = facts.st_size / 8 * 8;
  std::memcpy(&header_, page, sizeof header_);
  const char *wrong = nullptr;
  if (std::memcmp(header_.magic, raw::kMagic, sizeof raw::kMagic) != 0) wrong = "not a log";
  else if (header_.version != raw::kVersion) wrong = "unsupported log version";
  else if (header_.header_bytes != raw::kHeaderBytes) wrong = "damaged header";
  else if (header_.first_bytes != 0 && !is_first_sound()) wrong = "damaged header";
  if (wrong != nullptr) {
    close(file_);
    throw Failure(WL_CORRUPT, wrong);
  }
}

bool RawLog::is_first_sound() const {
  const uint64_t first = header_.first_bytes;
  return first % 8 == 0 && first >= raw::kHeaderBytes && first <= static_cast<uint64_t>(size_);
}

RawLog::~RawLog() { close(file_); }

const uint64_t *RawLog::words(int64_t offset, std::size_t count) {
  const auto bytes = static_cast<int64_t>(count * 8);
  if (offset < 0 || offset > size_ || bytes > size_ - offset) return nullptr;
  const int64_t window_end = window_at_ + static_cast<int64_t>(window_words_ * 8);
  if (offset < window_at_ || offset + bytes > window_end) {
    if (window_.empty()) {
      window_.resize(std::min(kWindowWords, static_cast<std::size_t>(size_ / 8)));
    }
    const auto left = static_cast<std::size_t>(size_ - offset);
    const std::size_t wanted = std::min(left, window_.size() * 8);
    window_at_ = offset;
    window_words_ = read_at(offset, window_.data(), wanted) / 8;
    if (window_words_ < count) return nullptr;  // the file became shorter
  }
  return window_.data() + (offset - window_at_) / 8;
}

std::size_t RawLog::read_at(int64_t offset, void *room, std::size_t bytes) const {
  return read_file(file_, offset, room, bytes);
}

}  // namespace warpline
