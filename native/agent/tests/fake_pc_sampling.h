// Continuous sampling of program counters by the fake CUPTI, and the modules of the program.
#pragma once

#include <cstdint>

#include "fake_cupti.h"

namespace fake_pc_sampling {

// A kernel runs on the GPU, and is sampled if its context is.
void run(const FakeLaunch& launch);

// Loads the module of a kernel into its context before the first launch there, as the driver does.
void load_for(const FakeLaunch& launch);
void unload(std::uint64_t context, std::uint64_t module);

void begin_context(std::uint64_t context);
void end_context(std::uint64_t context);

// Calls back for a resource, if the subscriber wants that: in fake_cupti.cpp.
void call_back_resource(std::uint32_t id, std::uint64_t context, void* descriptor);

}  // namespace fake_pc_sampling
