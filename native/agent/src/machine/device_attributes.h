// The attributes of a GPU, as the driver has them.
#pragma once

#include <cstdint>

#include "session/thread_log.h"

namespace warpline::agent {

// Writes all attributes that the driver knows of a device, by CUDA's number. The driver is not loaded
// for it. Not from within a callback.
void write_device_attributes(ThreadLog& log, std::uint32_t device) noexcept;

}  // namespace warpline::agent
