#include "session/control.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace warpline::agent {
namespace {

constexpr std::uint64_t kEpochUnit = 1u << 16;
constexpr std::uint64_t kEpochMask = 0xffffu << 16;
constexpr std::uint64_t kWindowUnit = std::uint64_t{1} << 32;

// Sets a new word derived from the one that is there; returns the new one.
template <class Change>
Switch change_switch(raw::ControlPage& page, Change change) noexcept {
  std::uint64_t old = __atomic_load_n(&page.switch_word, __ATOMIC_RELAXED);
  std::uint64_t next = change(old);
  while (!__atomic_compare_exchange_n(&page.switch_word, &old, next, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_RELAXED)) {
    next = change(old);
  }
  return {next};
}

}  // namespace

raw::ControlPage* map_control(const std::string& folder) noexcept {
  const int file = open((folder + "/control").c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  const off_t bytes = lseek(file, 0, SEEK_END);
  void* page = MAP_FAILED;
  if (bytes >= static_cast<off_t>(raw::kControlBytes)) {
    page = mmap(nullptr, raw::kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  } else {
    errno = EINVAL;
  }
  const int error = errno;
  close(file);
  errno = error;
  if (page == MAP_FAILED) return nullptr;
  auto* control = static_cast<raw::ControlPage*>(page);
  if (control->magic != raw::kControlMagic || control->version != raw::kVersion) {
    munmap(page, raw::kControlBytes);
    errno = EPROTO;
    return nullptr;
  }
  return control;
}

raw::ControlSlot* take_slot(raw::ControlPage& page, std::uint32_t pid) noexcept {
  for (raw::ControlSlot& slot : page.slots) {
    std::uint32_t free = 0;
    if (__atomic_compare_exchange_n(&slot.pid, &free, pid, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
      tell_drain(page, &slot, raw::DrainState::kNothing);
      return &slot;
    }
  }
  return nullptr;
}

void tell_drain(raw::ControlPage& page, const raw::ControlSlot* slot,
                raw::DrainState state) noexcept {
  if (slot == nullptr) return;
  __atomic_store(&page.drains[slot - page.slots], &state, __ATOMIC_RELEASE);
}

bool is_drain_wanted(const raw::ControlPage& page) noexcept {
  return __atomic_load_n(&page.drain_wanted, __ATOMIC_ACQUIRE) != 0;
}

void open_window(raw::ControlPage& page, raw::ControlSlot* slot) noexcept {
  if (slot != nullptr) __atomic_fetch_add(&slot->windows_open, 1, __ATOMIC_RELAXED);
  change_switch(page, [](std::uint64_t word) {
    const std::uint64_t opened = word + kWindowUnit;
    if (Switch{word}.is_on() || !Switch{opened}.is_on()) return opened;
    return (opened & ~kEpochMask) | ((opened + kEpochUnit) & kEpochMask);
  });
}

void close_window(raw::ControlPage& page, raw::ControlSlot* slot) noexcept {
  if (slot != nullptr) __atomic_fetch_sub(&slot->windows_open, 1, __ATOMIC_RELAXED);
  const std::uint64_t recorded = read_switch(page).is_on() ? 1 : 0;
  const std::uint64_t done = __atomic_add_fetch(&page.windows_done, recorded, __ATOMIC_ACQ_REL);
  const std::uint64_t wanted = __atomic_load_n(&page.windows_wanted, __ATOMIC_RELAXED);
  const bool is_last = wanted != 0 && done >= wanted;
  change_switch(page, [is_last](std::uint64_t word) {
    const std::uint64_t closed = Switch{word}.windows_open() == 0 ? word : word - kWindowUnit;
    // Another process may still be within its range: the last one to leave ends the session.
    if (!is_last || Switch{closed}.windows_open() != 0) return closed;
    return (closed & ~std::uint64_t{0xff}) | static_cast<std::uint64_t>(raw::State::kStopped);
  });
}

void stop_session(raw::ControlPage& page) noexcept {
  change_switch(page, [](std::uint64_t word) {
    return (word & ~std::uint64_t{0xff}) | static_cast<std::uint64_t>(raw::State::kStopped);
  });
}

void report_error(raw::ControlPage& page, const char* text) noexcept {
  if (__atomic_fetch_add(&page.agent_errors, 1, __ATOMIC_ACQ_REL) == 0) {
    std::strncpy(page.first_error, text, sizeof page.first_error - 1);
  }
}

}  // namespace warpline::agent
