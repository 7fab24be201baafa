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
// A launch of a kernel: what the driver is given, and what it works on.
struct FakeLaunch {
  std::uint64_t context;  // 0x1000 times its number
  std::uint64_t stream;
  std::uint64_t function;
  const char* symbol;
  std::uint32_t number;  // of the kernel: values are made of it
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t shared_bytes;
  std::uint64_t* memory;      // of the GPU: the kernel adds one to it
  std::uint64_t* executions;  // how often kernels ran, also those that were replayed
};
// A call that launches it: of the runtime, which calls the driver (runtime_id 0: of the driver
// alone). Returns the status of both.
struct FakeLaunchCall {
  std::uint32_t runtime_id;
  std::uint32_t driver_id;
  std::uint32_t correlation;
  const void* runtime_parameters;
};
using FakeLaunchKernel = std::int32_t (*)(const FakeLaunchCall* call, const FakeLaunch* launch);
// Calls of the driver: of captures of a stream, of the graph that was captured, of a context's end, of
// a stream's end.
enum class FakeAct : std::uint32_t {
  kBeginCapture, kEndCapture, kLaunchGraph, kEndContext, kEndStream
};
using FakeDriverAct = std::int32_t (*)(FakeAct act, std::uint32_t driver_id,
                                       std::uint32_t correlation, std::uint64_t context,
                                       std::uint64_t stream);
using FakeIsCapturing = std::int32_t (*)(std::uint64_t stream);
// A context begins, unless it has; a module of a context is unloaded.
using FakeBeginContext = void (*)(std::uint64_t context);
using FakeUnload = void (*)(std::uint64_t context, std::uint64_t module);
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
// Memory of the GPU is allocated or, if `bytes` are negative, freed.
using FakeAllocate = void (*)(std::int64_t bytes);
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
