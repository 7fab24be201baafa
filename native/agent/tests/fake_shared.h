// The other subscriber of the fake CUPTI, and what may not be called beside it.
#pragma once

#include <cstdint>

namespace fake_shared {

// Whether a process may have several subscribers, and the first allows it: FAKE_CUPTI_SHARES, with
// CUPTI 13.3 and a driver of CUDA 13.3 or later.
bool may_join(std::uint32_t version);
void join(void* subscriber);
void leave();
bool is_shared();  // from the first that joins on

// A function of version 1 begins. Tells of it where CUPTI is shared, and returns true: it is refused.
bool is_refused(const char* function);

// What the other one is given. It holds CUPTI from the start where FAKE_CUPTI_BUSY names one.
void on_kernel();
void on_call(std::uint32_t domain);
void on_flush(std::uint32_t flags);
void hold(bool holds);  // what it holds is not complete
void on_finalize();

}  // namespace fake_shared
