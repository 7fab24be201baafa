#include "session/space.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>

#include "session/process.h"

namespace warpline::agent {

bool has_space(const Session& session, std::uint64_t bytes) noexcept {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  struct statvfs disk;
  if (statvfs(session.folder.c_str(), &disk) != 0) return false;
  errno = ENOSPC;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize >= session.config.keep_free_bytes;
}

}  // namespace warpline::agent
