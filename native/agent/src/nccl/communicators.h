// The communicators that NCCL has told of.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpline::agent {
struct LibraryText;
}

namespace warpline::agent::nccl {

struct Communicator {
  std::atomic<bool> is_used;
  std::atomic<std::uint32_t> ranks;  // 0: not told
  std::atomic<std::uint32_t> nodes;
  std::atomic<const LibraryText*> id;    // null: not told
  std::atomic<const LibraryText*> name;
  Communicator* next;
};

// Returns the texts of a communicator's hash, in hexadecimal, and of its name; null for none.
const LibraryText* id_text(std::uint64_t hash) noexcept;
const LibraryText* name_text(const char* name) noexcept;

// Returns a communicator's place. It is there as long as the process: an event that comes late finds another
// communicator at worst. There are as many places as communicators at a time.
Communicator& enter_communicator(std::uint64_t hash, const char* name, int ranks, int nodes) noexcept;

// What has no place, or says of itself which it is.
Communicator& no_communicator() noexcept;

void leave_communicator(Communicator& communicator) noexcept;

}  // namespace warpline::agent::nccl
