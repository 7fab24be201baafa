#include "raw/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "failure.h"
#include "warpline_core.h"

namespace warpline {

namespace {

constexpr std::size_t kWindowWords = std::size_t{1} << 17;  // 1 MiB: more than any record

}  // namespace

RawLog::RawLog(const std::string &path) {
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) throw Failure(WL_IO, std::strerror(errno));
  struct stat facts {};
  const bool is_file = fstat(file_, &facts) == 0 && S_ISREG(facts.st_mode);
  size_ = facts.st_size / 8 * 8;
  char page[sizeof(raw::LogHeader)];
  if (!is_file || read_at(0, page, sizeof page) != sizeof page) {
    close(file_);
    throw Failure(WL_CORRUPT, is_file ? "shorter than a log header" : "not a file");
  }
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
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(file_, static_cast<char *>(room) + done, bytes - done,
                              static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace warpline
