#include "counters/clock_lock.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "cupti/setup.h"
#include "session/lock.h"
#include "warpline_cuda.h"

namespace warpline::agent {
namespace {

std::string reason_of(const cupti::Functions& functions, cupti::Result result) {
  switch (result) {
    case cupti::kNotSupported: return "the GPU or the driver does not support it, as with MIG";
    case cupti::kInsufficientPrivileges: return "it needs root or CAP_SYS_ADMIN";
    default: return words_of(functions, result);
  }
}

void tell(std::uint32_t device, const std::string& what) {
  note(raw::CudaNote::kCountersDoubt, "clocks of GPU " + std::to_string(device) + " " + what);
}

}  // namespace

// Tries to lock the clocks. Returns whether they are locked now, by whomever.
bool ClockLock::try_to_lock(void* context, std::uint32_t device) {
  if (holder_ != 0) {
    tell(device, "are not locked: CUPTI locks those of one GPU per process");
    return false;
  }
  auto status = cupti::ClockStatus::kUnlocked;
  if (functions_.clock_status(context, &status) == cupti::kSuccess &&
      status == cupti::ClockStatus::kLocked) {
    tell(device, "were locked before, and are left as they are");  // as CUPTI would leave them
    return true;
  }
  const auto mode = clocks_ == Clocks::kBoost ? cupti::ClockMode::kBoost : cupti::ClockMode::kBase;
  const cupti::Result result = functions_.clock_lock(context, mode);
  if (result != cupti::kSuccess) {
    tell(device, "are not locked: " + reason_of(base_, result));
    return false;
  }
  holder_ = getpid();
  context_ = context;
  device_ = device;
  note(raw::CudaNote::kClocksLocked, std::to_string(device));
  return true;
}

void ClockLock::hold(void* context, std::uint32_t device) noexcept {
  if (!is_asked()) return;
  const Lock lock(lock_);
  try {
    const auto tried = std::find_if(tried_.begin(), tried_.end(), [device](const Tried& each) {
      return each.device == device;
    });
    if (tried == tried_.end()) {
      tried_.push_back({device, try_to_lock(context, device)});
    } else if (context_ != nullptr && device_ == device && holder_ == 0) {
      tried->is_fixed = try_to_lock(context, device);  // the context that held it has ended
    }
  } catch (...) {
  }
}

bool ClockLock::are_fixed(std::uint32_t device) const noexcept {
  const Lock lock(lock_);
  return std::any_of(tried_.begin(), tried_.end(), [device](const Tried& tried) {
    return tried.device == device && tried.is_fixed;
  });
}

bool ClockLock::is_held() const noexcept {
  const Lock lock(lock_);
  return holder_ != 0 && holder_ == getpid();
}

bool ClockLock::is_held_by(const void* context) const noexcept {
  const Lock lock(lock_);
  return holder_ != 0 && holder_ == getpid() && context_ == context;
}

void ClockLock::release() noexcept {
  const Lock lock(lock_);
  if (holder_ == 0 || holder_ != getpid()) return;
  holder_ = 0;
  try {
    if (functions_.clock_unlock() == cupti::kSuccess) {
      note(raw::CudaNote::kClocksUnlocked, std::to_string(device_));
    } else {
      tell(device_, "could not be unlocked");
    }
  } catch (...) {
  }
}

}  // namespace warpline::agent
