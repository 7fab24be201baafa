#include "raw_payload.h"

namespace warpline {

void decode_payloads(RawTables &) {}

}  // namespace warpline
