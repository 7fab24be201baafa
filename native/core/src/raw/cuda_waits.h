// Waits and event records of a raw session, from the calls that said what they concern.
#pragma once

#include "raw/tables.h"

namespace warpline {

// Adds them to the tables. Before devices, contexts and streams are numbered.
void derive_waits(RawTables &tables);

}  // namespace warpline
