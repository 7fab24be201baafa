// The code of modules that the program loads, kept in the session for finishing.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <set>
#include <string>

#include "pc_sampling/abi.h"

namespace warpline::agent {

struct Session;

// The files cubins/CHECKSUM.cubin of a session; one is complete when it has that name. Any thread.
class Cubins {
 public:
  Cubins(const Session& session, const cupti::PcFunctions& functions);
  Cubins(const Cubins&) = delete;
  Cubins& operator=(const Cubins&) = delete;

  // Keeps the code of a module, once. Returns false if it is left out: there is no room, or this
  // process has kept as much as it may.
  bool keep(const cupti::ModuleData& module) noexcept;

 private:
  bool write(std::uint64_t checksum, const cupti::ModuleData& module);

  const Session& session_;
  cupti::PcFunctions functions_;
  std::string folder_;
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  std::set<std::uint64_t> kept_;
  std::uint64_t bytes_ = 0;
};

}  // namespace warpline::agent
