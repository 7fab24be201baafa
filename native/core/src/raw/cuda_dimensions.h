// Devices, contexts and streams of a raw session.
#pragma once

#include "raw/tables.h"

namespace warpline {

// Numbers them and points every place, wait, event and peer copy at its rows.
void number_dimensions(RawTables &tables);

}  // namespace warpline
