// Decodes the payloads of a raw session by the schemas that the program registered.
#pragma once

#include "raw/tables.h"

namespace warpline {

// Reads the records of tables.payloads again and adds their values to tables.values.
void decode_payloads(RawTables &tables);

}  // namespace warpline
