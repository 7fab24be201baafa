// The checksum of ZIP, gzip and PNG: CRC-32 of IEEE 802.3, bits reflected.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline {

// Returns the checksum of what `crc` is the checksum of, followed by `bytes`; of nothing it is 0.
// Goes the way that suits this processor, in several threads if there is enough to do: `threads`
// bounds them, 0 is min(4, processors). May throw bad_alloc.
uint32_t crc32(const uint8_t *bytes, std::size_t count, uint32_t crc, int threads);

// The same by tables alone, which is what processors do that have nothing better.
uint32_t crc32_by_tables(const uint8_t *bytes, std::size_t count, uint32_t crc) noexcept;

}  // namespace warpline
