// Completes the tables of a raw session once all its logs are decoded.
#pragma once

#include <cstdint>

#include "raw/tables.h"

namespace warpline {

// Joins starts and stops, ends what is open, names what names were given to, decodes payloads and
// orders the rows. `end_ns`: when recording stopped, or kUnknownTime.
void seal(RawTables &tables, int64_t end_ns);

}  // namespace warpline
