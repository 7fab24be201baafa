// The ways to a checksum, against the one that goes bit by bit. What tables alone give is called by
// no program on a processor that has more, so it is tried here.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "crc32.h"

namespace {

uint32_t bit_by_bit(const uint8_t *bytes, std::size_t count, uint32_t crc) {
  crc = ~crc;
  for (std::size_t at = 0; at < count; ++at) {
    crc ^= bytes[at];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

void expect(uint32_t found, uint32_t wanted, const char *way, std::size_t begin, std::size_t count) {
  if (found == wanted) return;
  std::fprintf(stderr, "%s: %08x, not %08x, of %zu bytes from %zu on\n", way, found, wanted, count,
               begin);
  std::abort();
}

}  // namespace

int main() {
  const uint8_t known[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  expect(warpline::crc32(known, sizeof known, 0, 0), 0xcbf43926, "the check value", 0, 9);
  std::mt19937_64 engine(11);
  std::vector<uint8_t> bytes(std::size_t{25} << 20);  // enough for three threads
  for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(engine());
  const std::size_t edges[] = {0,    1,    15,     16,     17,     31,     63,     64,     65,
                               127,  128,  4095,   262143, 262144, 262145};
  for (const std::size_t count : edges) {
    for (std::size_t begin = 0; begin < (count < 5000 ? 3 : 1); ++begin) {
      const auto crc = static_cast<uint32_t>(engine());
      const uint8_t *const from = bytes.data() + begin;
      const uint32_t wanted = bit_by_bit(from, count, crc);
      expect(warpline::crc32_by_tables(from, count, crc), wanted, "tables", begin, count);
      expect(warpline::crc32(from, count, crc, 1), wanted, "one thread", begin, count);
      expect(warpline::crc32(from, count, crc, 3), wanted, "threads", begin, count);
    }
  }
  const uint32_t all = warpline::crc32_by_tables(bytes.data(), bytes.size(), 5);
  expect(warpline::crc32(bytes.data(), bytes.size(), 5, 1), all, "one thread", 0, bytes.size());
  expect(warpline::crc32(bytes.data(), bytes.size(), 5, 3), all, "threads", 0, bytes.size());
  for (int turn = 0; turn < 3000; ++turn) {
    const std::size_t begin = engine() % 200, count = engine() % 600;
    const auto crc = static_cast<uint32_t>(engine());
    const uint32_t wanted = bit_by_bit(bytes.data() + begin, count, crc);
    expect(warpline::crc32_by_tables(bytes.data() + begin, count, crc), wanted, "tables", begin,
           count);
    expect(warpline::crc32(bytes.data() + begin, count, crc, 0), wanted, "the best", begin, count);
  }
  return 0;
}
