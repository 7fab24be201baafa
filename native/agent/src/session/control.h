// The control page of a session: whether recording is on, and capture ranges.
#pragma once

#include <cstdint>
#include <string>

#include "warpline_raw.h"

namespace warpline::agent {

// The parts of the switch word; see ControlPage.
struct Switch {
  std::uint64_t word;

  raw::State state() const noexcept { return static_cast<raw::State>(word & 0xff); }
  raw::RangeMode mode() const noexcept { return static_cast<raw::RangeMode>(word >> 8 & 0xff); }
  std::uint32_t epoch() const noexcept { return static_cast<std::uint16_t>(word >> 16); }
  std::uint32_t windows_open() const noexcept { return static_cast<std::uint32_t>(word >> 32); }
  bool is_on() const noexcept {
    if (state() == raw::State::kTimeWindow) return true;
    return state() == raw::State::kRecording &&
           (mode() == raw::RangeMode::kNone || windows_open() != 0);
  }
};

inline Switch read_switch(const raw::ControlPage& page) noexcept {
  return {__atomic_load_n(&page.switch_word, __ATOMIC_RELAXED)};
}

// Maps the control page in a directory. Returns nullptr and sets errno if it is missing or not
// of this version.
raw::ControlPage* map_control(const std::string& folder) noexcept;

// Takes a slot for a process; nullptr if all are taken, which only loses the launcher's help
// should this process die in a capture range.
raw::ControlSlot* take_slot(raw::ControlPage& page, std::uint32_t pid) noexcept;

// Opens or closes one capture range in the page; the session ends after the last requested one.
// Sets whether a process's GPU records are in its logs; without a slot, the launcher does not wait.
void tell_drain(raw::ControlPage& page, const raw::ControlSlot* slot,
                raw::DrainState state) noexcept;
bool is_drain_wanted(const raw::ControlPage& page) noexcept;

void open_window(raw::ControlPage& page, raw::ControlSlot* slot) noexcept;
void close_window(raw::ControlPage& page, raw::ControlSlot* slot) noexcept;

inline void add(std::uint64_t& counter, std::uint64_t count = 1) noexcept {
  __atomic_fetch_add(&counter, count, __ATOMIC_RELAXED);
}

// Ends recording, for all processes of the session.
void stop_session(raw::ControlPage& page) noexcept;

// Stores the first error of the session for the launcher.
void report_error(raw::ControlPage& page, const char* text) noexcept;

}  // namespace warpline::agent
