// An operation of NCCL, whatever version of the interface it came by.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::agent {
struct LibraryText;
}

namespace warpline::agent::nccl {

// Texts may be null.
struct Operation {
  const char* function = nullptr;
  const char* dtype = nullptr;
  const char* algorithm = nullptr;
  const char* protocol = nullptr;
  const LibraryText* communicator = nullptr;
  const LibraryText* communicator_name = nullptr;
  std::uint64_t call_ns = 0;       // 0: not told
  std::uint64_t sequence = 0;
  std::size_t count = 0;
  int rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  int peer = 0;  // or root
  std::uint32_t channels = 0;
  std::uint32_t warps = 0;
  bool has_sequence = false;
  bool has_peer = false;
};

// Whether a collective has a root.
bool has_root(const char* function) noexcept;

// Writes an operation into the log of this thread, if it is recorded now.
void write_operation(const Operation& operation) noexcept;

}  // namespace warpline::agent::nccl
