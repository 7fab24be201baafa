// Whether the program has finished starting to use CUDA. CUPTI that is used for the first time meanwhile leaves a lock
// of the driver locked for ever, or crashes, in its own thread or in a call of the program's (CUPTI 13.0.1, driver
// 580, H100 and H200; docs/attaching.md).
#pragma once

namespace warpline::agent {

// Notes that CUDA is being initialized now.
void cuda_comes() noexcept;

// Returns whether nothing has shown for a while that the program starts to use CUDA. Once true, always true. While it is
// not, ask again: what happens is seen by that. May wait for another thread that initializes CUDA or makes a
// context. One thread at a time.
//
// Args:
//   is_prepared: Whether CUPTI was used before CUDA was: then only the initialization itself is waited for.
bool is_cuda_settled(bool is_prepared) noexcept;

}  // namespace warpline::agent
