#include "crc32.h"

#include <array>
#include <exception>
#include <vector>

#include "parallel.h"
#include "warpline_core.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define WL_HAS_CARRYLESS 1
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace warpline {
namespace {

constexpr uint32_t kPolynomial = 0xedb88320, kTopBit = 0x80000000;  // of bits, the highest is first
constexpr std::size_t kTableSlices = 16;
constexpr std::size_t kMinThreadBytes = std::size_t{8} << 20;  // below, a busy machine loses more

using SliceTable = std::array<uint32_t, 256>;
using SliceTables = std::array<SliceTable, kTableSlices>;
using Powers = std::array<uint32_t, 64>;

// In here, `state` is a checksum with all bits inverted: a polynomial below the 32nd degree, which
// is what was read so far modulo kPolynomial.

constexpr uint32_t times_x(uint32_t state) {
  return (state >> 1) ^ ((state & 1U) != 0 ? kPolynomial : 0U);
}

constexpr uint32_t product(uint32_t one, uint32_t other) {
  uint32_t sum = 0;
  for (uint32_t bit = kTopBit; bit != 0; bit >>= 1) {
    if ((one & bit) != 0) sum ^= other;
    other = times_x(other);
  }
  return sum;
}

// tables[n][byte] is what `byte` becomes when n zero bytes follow it.
constexpr SliceTables make_tables() {
  SliceTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) state = times_x(state);
    tables[0][byte] = state;
  }
  for (std::size_t slice = 1; slice < kTableSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

// powers[n] is what a state is multiplied with when 2^n bytes follow it.
constexpr Powers make_powers() {
  Powers powers{};
  powers[0] = kTopBit >> 8;
  for (std::size_t n = 1; n < powers.size(); ++n) powers[n] = product(powers[n - 1], powers[n - 1]);
  return powers;
}

constexpr SliceTables kTables = make_tables();
constexpr Powers kPowers = make_powers();

// Returns the state after `count` zero bytes.
uint32_t moved_on(uint32_t state, std::size_t count) noexcept {
  for (std::size_t n = 0; count != 0; ++n, count >>= 1) {
    if ((count & 1) != 0) state = product(kPowers[n], state);
  }
  return state;
}

uint32_t through_tables(const uint8_t *bytes, std::size_t count, uint32_t state) noexcept {
  for (; count >= kTableSlices; bytes += kTableSlices, count -= kTableSlices) {
    uint32_t next = 0;
    for (std::size_t place = 0; place < kTableSlices; ++place) {
      // The state belongs to the first four bytes, its lowest to the first, on any processor.
      const uint32_t mixed = place < 4 ? (state >> (8 * place)) & 0xff : 0;
      next ^= kTables[kTableSlices - 1 - place][bytes[place] ^ mixed];
    }
    state = next;
  }
  for (; count > 0; ++bytes, --count) {
    state = (state >> 8) ^ kTables[0][(state ^ *bytes) & 0xff];
  }
  return state;
}

#ifdef WL_HAS_CARRYLESS

// V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction",
// Intel 2009: a block of 16 bytes is moved behind later ones by multiplying its halves with powers
// of x modulo the polynomial. The constants are those of its table for this polynomial, reflected.
// Several streams are read at once, and ahead: one alone waits for the memory half of its time.
constexpr std::size_t kBlock = 16, kBlocks = 4, kStride = kBlocks * kBlock;
constexpr std::size_t kStreams = 3, kMinStreamed = std::size_t{256} << 10, kAhead = 2048;

#define WL_CARRYLESS __attribute__((target("sse4.1,pclmul")))

WL_CARRYLESS inline __m128i load(const uint8_t *bytes) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes));
}

WL_CARRYLESS inline __m128i moved(__m128i block, __m128i powers) noexcept {
  return _mm_xor_si128(_mm_clmulepi64_si128(block, powers, 0x00),
                       _mm_clmulepi64_si128(block, powers, 0x11));
}

// Brings 16 bytes down to a state, by a Barrett reduction at the end.
WL_CARRYLESS inline uint32_t reduced(__m128i block) noexcept {
  const __m128i by_64 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const __m128i by_32 = _mm_set_epi64x(0, 0x0163cd6124);
  const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const __m128i low = _mm_setr_epi32(-1, 0, -1, 0);
  block = _mm_xor_si128(_mm_srli_si128(block, 8), _mm_clmulepi64_si128(block, by_64, 0x10));
  const __m128i rest = _mm_srli_si128(block, 4);
  block = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(block, low), by_32, 0x00), rest);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(block, low), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(block, quotient), 1));
}

// Goes through `streams` parts of `part` bytes each, one behind the other; `part` is a multiple of
// kStride and not 0.
template <std::size_t streams>
WL_CARRYLESS uint32_t folded(const uint8_t *bytes, std::size_t part, uint32_t state) noexcept {
  const __m128i by_stride = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by_block = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  __m128i blocks[streams][kBlocks];
  for (std::size_t stream = 0; stream < streams; ++stream) {
    for (std::size_t place = 0; place < kBlocks; ++place) {
      blocks[stream][place] = load(bytes + stream * part + place * kBlock);
    }
  }
  blocks[0][0] = _mm_xor_si128(blocks[0][0], _mm_cvtsi32_si128(static_cast<int>(state)));
  for (std::size_t at = kStride; at < part; at += kStride) {
    for (std::size_t stream = 0; stream < streams; ++stream) {
      const uint8_t *const from = bytes + stream * part + at;
      _mm_prefetch(reinterpret_cast<const char *>(from) + kAhead, _MM_HINT_T0);
      for (std::size_t place = 0; place < kBlocks; ++place) {
        __m128i &block = blocks[stream][place];
        block = _mm_xor_si128(moved(block, by_stride), load(from + place * kBlock));
      }
    }
  }
  uint32_t all = 0;
  for (const auto &of_stream : blocks) {
    __m128i block = of_stream[0];
    for (std::size_t place = 1; place < kBlocks; ++place) {
      block = _mm_xor_si128(moved(block, by_block), of_stream[place]);
    }
    all = (streams > 1 ? moved_on(all, part) : 0) ^ reduced(block);
  }
  return all;
}

// Not by __builtin_cpu_supports: the runtime of zig, which published libraries have, answers no.
bool has_carryless() noexcept {
  static const bool has = [] {
    constexpr unsigned wanted = bit_PCLMUL | bit_SSE4_1;
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & wanted) == wanted;
  }();
  return has;
}

#endif

uint32_t through(const uint8_t *bytes, std::size_t count, uint32_t state) noexcept {
#ifdef WL_HAS_CARRYLESS
  if (has_carryless()) {
    if (count >= kMinStreamed) {
      const std::size_t part = count / kStreams / kStride * kStride;
      state = folded<kStreams>(bytes, part, state);
      bytes += kStreams * part;
      count -= kStreams * part;
    }
    if (count >= kStride) {
      const std::size_t part = count / kStride * kStride;
      state = folded<1>(bytes, part, state);
      bytes += part;
      count -= part;
    }
  }
#endif
  return through_tables(bytes, count, state);
}

}  // namespace

uint32_t crc32_by_tables(const uint8_t *bytes, std::size_t count, uint32_t crc) noexcept {
  return ~through_tables(bytes, count, ~crc);
}

uint32_t crc32(const uint8_t *bytes, std::size_t count, uint32_t crc, int threads) {
  const std::size_t slices = slice_count(count, kMinThreadBytes, threads);
  if (slices == 1) return ~through(bytes, count, ~crc);
  struct Slice {
    uint32_t state;
    std::size_t count;
  };
  std::vector<Slice> found(slices);
  for_each_slice(count, slices, [&](std::size_t slice, std::size_t begin, std::size_t end) {
    found[slice] = {through(bytes + begin, end - begin, 0), end - begin};
  });
  uint32_t state = ~crc;
  for (const Slice &slice : found) state = moved_on(state, slice.count) ^ slice.state;
  return ~state;
}

}  // namespace warpline

extern "C" int64_t wl_crc32(const uint8_t *bytes, int64_t count, uint32_t crc, int32_t threads) {
  if (count < 0 || (bytes == nullptr && count > 0)) return -WL_BAD_ARGUMENT;
  try {
    return warpline::crc32(bytes, static_cast<std::size_t>(count), crc, threads);
  } catch (const std::exception &) {
    return -WL_NO_MEMORY;
  }
}
