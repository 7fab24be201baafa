#include "warpline_sampler.h"

#include <cerrno>
#include <memory>
#include <new>

#include "sampler.h"

namespace {

std::unique_ptr<warpline::sampler::Sampler> g_sampler;

// Nothing is thrown to the caller: without memory there are no samples.
template <class Function>
int guarded(const Function& function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (...) {
    return EINVAL;
  }
}

}  // namespace

int32_t wl_sampler_abi_version(void) { return WL_SAMPLER_ABI_VERSION; }

int32_t wl_sampler_try(const wl_sampler_options* options) {
  return guarded([&] {
    warpline::sampler::Sampler sampler;
    return sampler.open(*options);
  });
}

int32_t wl_sampler_open(const wl_sampler_options* options) {
  return guarded([&] {
    auto sampler = std::make_unique<warpline::sampler::Sampler>();
    const int error = sampler->open(*options);
    if (error == 0) g_sampler = std::move(sampler);
    return error;
  });
}

void wl_sampler_run(int32_t until) {
  guarded([&] {
    if (g_sampler != nullptr) g_sampler->run(until);
    return 0;
  });
}

void wl_sampler_close(wl_sampler_counts* counts) {
  guarded([&] {
    if (g_sampler != nullptr) g_sampler->close(*counts);
    g_sampler.reset();
    return 0;
  });
}
