// What every function of the C interface does with what is thrown below it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

#include "failure.h"
#include "warpline_core.h"

namespace warpline {

inline int32_t report(int32_t status, const char *text, char *message, int64_t message_bytes) {
  if (message != nullptr && message_bytes > 0) {
    const auto room = static_cast<std::size_t>(message_bytes) - 1;
    const std::size_t length = std::min(std::strlen(text), room);
    std::memcpy(message, text, length);
    message[length] = '\0';
  }
  return status;
}

template <typename Work>
int32_t guarded(char *message, int64_t message_bytes, const Work &work) noexcept {
  try {
    work();
    return WL_OK;
  } catch (const Failure &failure) {
    return report(failure.status(), failure.what(), message, message_bytes);
  } catch (const std::exception &) {  // bad_alloc, length_error: nothing else can be thrown here
    return report(WL_NO_MEMORY, "not enough memory", message, message_bytes);
  }
}

inline void require(bool holds) {
  if (!holds) throw Failure(WL_BAD_ARGUMENT, "a missing or negative argument");
}

}  // namespace warpline
