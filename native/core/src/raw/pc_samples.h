// Samples of program counters, which a process writes down in parts.
#pragma once

namespace warpline {

struct RawTables;

// Adds up the rows of the same instruction and stall reason, and those of the same device. Once kernels
// have names.
void add_up_pc_samples(RawTables &tables);

}  // namespace warpline
