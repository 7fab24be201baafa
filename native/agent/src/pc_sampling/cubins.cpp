#include "pc_sampling/cubins.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "session/lock.h"
#include "session/process.h"
#include "session/space.h"

namespace warpline::agent {
namespace {

// Writes a whole file that must not be there yet.
bool write_file(const char* path, const char* bytes, std::size_t size) noexcept {
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  std::size_t done = 0;
  while (done < size) {
    const ssize_t wrote = write(file, bytes + done, size - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  return close(file) == 0 && done == size;
}

}  // namespace

Cubins::Cubins(const Session& session, const cupti::PcFunctions& functions)
    : session_(session), functions_(functions), folder_(session.folder + "/cubins/") {
  mkdir(folder_.c_str(), 0700);  // unless another process has made it
}

bool Cubins::keep(const cupti::ModuleData& module) noexcept {
  if (module.image == nullptr || module.bytes == 0) return false;
  auto ask = cupti::sized(&cupti::CubinChecksum::checksum);
  ask.image_bytes = module.bytes;
  ask.image = module.image;
  if (functions_.checksum(&ask) != cupti::kSuccess) return false;
  try {
    const Lock lock(lock_);
    if (kept_.contains(ask.checksum)) return true;
    if (!write(ask.checksum, module)) return false;
    kept_.insert(ask.checksum);
    return true;
  } catch (...) {
    return false;
  }
}

bool Cubins::write(std::uint64_t checksum, const cupti::ModuleData& module) {
  char name[17];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(checksum));
  const std::string path = folder_ + name + ".cubin";
  if (access(path.c_str(), F_OK) == 0) return true;  // another process has written it
  const std::uint64_t most = session_.config.pc_sampling.cubin_bytes;
  if (bytes_ + module.bytes > most || !has_space(session_, module.bytes)) return false;
  const std::string unfinished = folder_ + name + "." + std::to_string(getpid());
  if (write_file(unfinished.c_str(), module.image, module.bytes) &&
      rename(unfinished.c_str(), path.c_str()) == 0) {
    bytes_ += module.bytes;
    return true;
  }
  unlink(unfinished.c_str());
  return false;
}

}  // namespace warpline::agent
