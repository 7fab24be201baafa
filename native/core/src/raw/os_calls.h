// Calls of the C library.
#pragma once

namespace warpline {

struct RawTables;

// Finds in how many others of its thread each call was made: a handler of a signal makes calls within one.
// The rows are sorted.
void nest_os_calls(RawTables &tables);

}  // namespace warpline
