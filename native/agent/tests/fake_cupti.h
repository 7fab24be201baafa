// What the program cuda_app asks of the fake CUPTI, which stands for the CUDA runtime and driver.
#pragma once

#include <cstdint>

extern "C" {
// One callback: a call of a domain (1 driver, 2 runtime) is entered (site 0) or left (site 1).
using FakeCall = void (*)(std::uint32_t domain, std::uint32_t id, std::uint32_t site,
                          std::uint32_t correlation, std::int32_t status);
// The same with the call's parameters, a struct of the call's own.
using FakeCallWith = void (*)(std::uint32_t domain, std::uint32_t id, std::uint32_t site,
                              std::uint32_t correlation, std::int32_t status,
                              const void* parameters);
// How many callbacks of calls were made since this was last asked.
using FakeCallbacks = std::uint64_t (*)();
// Every stream has ended: what has its handle is another one.
using FakeStreamsEnd = void (*)();
// A kernel named `name` that began `start` and ran for `ns`; correlation as its call's. Times 0:
// now, for a microsecond.
using FakeKernel = void (*)(std::uint32_t correlation, const char* name, std::uint64_t start,
                            std::uint64_t ns);
// One record of every kind, in every form, with the values that the test expects.
using FakeEveryRecord = void (*)();
// A graph node is created, by cloning when original is not 0.
using FakeNode = void (*)(std::uint64_t node, std::uint64_t original, std::uint32_t type);
// A graph is instantiated.
using FakeGraphExec = void (*)();
// While held, the current buffer counts as incomplete: only a forced flush returns it.
using FakeHold = void (*)(std::int32_t holds);

// What the other subscriber has: kernels that it was given, that CUPTI holds for it, that it was given
// before they had ended; and callbacks.
struct FakeOther {
  std::uint64_t kernels;
  std::uint64_t held;
  std::uint64_t cut;
  std::uint64_t calls;
};
using FakeAskOther = void (*)(FakeOther* into);
}
