// Finds the lines of its own functions and what was inlined into them, then reads damaged copies of itself:
// under the sanitizers nothing may be found.
//
//     line_table_test [COPIES [SEED]]
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "elf/inlined.h"
#include "elf/line_table.h"
#include "raw/symbols.h"

namespace {

using warpline::ElfFile;
using warpline::SourceLine;

volatile int g_calls = 0;

// A function begins in the line that it is written in.
#define MARKED(name)                                     \
  [[gnu::noinline]] void name() { g_calls = g_calls + 1; } \
  constexpr uint32_t k_##name = __LINE__
MARKED(first);
MARKED(second);

MARKED(after_a_gap);

// Functions that are inlined, each into the next, and the line of each call.
#define INLINED [[gnu::always_inline]] inline
constexpr uint32_t k_inner_line = __LINE__ + 1;
INLINED void innermost() { g_calls = g_calls + 2; }
constexpr uint32_t k_inner_call = __LINE__ + 1;
INLINED void between() { innermost(); }
constexpr uint32_t k_outer_call = __LINE__ + 1;
[[gnu::noinline]] void holds_both() { between(); }

struct Marked {
  void (*function)();
  const char *name;
  uint32_t line;
};
const Marked kMarked[] = {{first, "first", k_first},
                          {second, "second", k_second},
                          {after_a_gap, "after_a_gap", k_after_a_gap}};

uint64_t place_of(void (*function)()) {
  uint64_t bias = 0;
  // The program itself comes first.
  dl_iterate_phdr(
      [](dl_phdr_info *module, std::size_t, void *found) {
        *static_cast<uint64_t *>(found) = module->dlpi_addr;
        return 1;
      },
      &bias);
  return reinterpret_cast<uint64_t>(function) - bias;
}

int fail(const char *what, const std::string &found) {
  std::fprintf(stderr, "%s: %s\n", what, found.c_str());
  return 1;
}

int check_own_lines(const std::string &path) {
  int failed = 0;
  for (const Marked &marked : kMarked) {
    marked.function();
    const auto found = warpline::code_names(path, ElfFile(path).build_id(), {place_of(marked.function)}, nullptr);
    const std::string said = found[0].function + " " + found[0].file + ":" + std::to_string(found[0].line);
    if (found[0].function.find(marked.name) == std::string::npos) failed += fail("function", said);
    if (!found[0].file.ends_with("core/tests/line_table_test.cpp")) failed += fail("file", said);
    if (found[0].line != marked.line) failed += fail("line", said);
  }
  return failed;
}

std::string shown(const std::string &function, const std::string &file, uint32_t line) {
  return function + " " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(line) + ", ";
}

int check_own_inlined(const std::string &path) {
  holds_both();
  // Without optimization, and with sanitizers, a function begins with code of its own.
  std::vector<uint64_t> places;
  for (uint64_t byte = 0; byte < 128; ++byte) places.push_back(place_of(holds_both) + byte);
  const auto all = warpline::code_names(path, ElfFile(path).build_id(), places, nullptr);
  std::size_t deepest = 0;
  for (std::size_t byte = 0; byte < all.size(); ++byte) {
    const bool is_in_it = all[byte].function.find("holds_both") != std::string::npos;
    if (is_in_it && all[byte].inlined.size() > all[deepest].inlined.size()) deepest = byte;
  }
  const auto &found = all[deepest];
  std::string said;
  std::string file = found.file;
  uint32_t line = found.line;
  for (const warpline::InlinedCall &call : found.inlined) {
    said += shown(call.function, file, line);
    file = call.call_file;
    line = call.call_line;
  }
  said += shown(found.function, file, line);
  const std::string source = " line_table_test.cpp:";
  std::size_t at = 0;
  for (const auto &[name, where] : {std::pair("innermost", k_inner_line), std::pair("between", k_inner_call),
                                    std::pair("holds_both", k_outer_call)}) {
    at = said.find(name, at);
    if (at == std::string::npos) return fail("no function", name + (" in " + said));
    at = said.find(source + std::to_string(where), at);
    if (at == std::string::npos) return fail("not in its line", name + (" in " + said));
  }
  return 0;
}

// Any content but of the right size, or none.
int32_t make_up(int32_t kind, const void *content, int64_t bytes, void *out, int64_t out_bytes) {
  for (int64_t i = 0; i < out_bytes; ++i) {
    static_cast<uint8_t *>(out)[i] = static_cast<const uint8_t *>(content)[i % bytes];
  }
  return kind & 1;
}

std::vector<uint64_t> some_places(std::mt19937_64 &chance) {
  std::vector<uint64_t> places;
  for (const Marked &marked : kMarked) places.push_back(place_of(marked.function));
  for (int i = 0; i < 20; ++i) places.push_back(places[0] + chance() % 65536);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

// Where a damaged copy differs: in the tables, their names, or what says where these are.
std::vector<std::pair<uint64_t, uint64_t>> weak_places(const ElfFile &file) {
  std::vector<std::pair<uint64_t, uint64_t>> found;
  for (const char *name : {".debug_line", ".debug_line_str", ".debug_str", ".debug_info", ".debug_abbrev",
                           ".debug_ranges", ".debug_rnglists", ".debug_info", ".debug_abbrev"}) {
    const Elf64_Shdr *section = file.section(name);
    if (section != nullptr) found.emplace_back(section->sh_offset, section->sh_size);
  }
  const auto head = file.read<Elf64_Ehdr>(0, 1);
  found.emplace_back(head[0].e_shoff, file.sections().size() * sizeof(Elf64_Shdr));
  found.emplace_back(0, sizeof(Elf64_Ehdr));
  return found;
}

int read_damaged(const std::string &path, int copies, uint64_t seed) {
  std::mt19937_64 chance(seed);
  const ElfFile whole(path);
  const auto weak = weak_places(whole);
  const std::string copy = path + ".damaged";
  const auto bytes = whole.read<char>(0, whole.bytes());
  const int file = open(copy.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || write(file, bytes.data(), bytes.size()) < 0) return fail("cannot write", copy);
  std::size_t known = 0;
  std::size_t inlined = 0;
  for (int number = 0; number < copies; ++number) {
    std::vector<uint64_t> changed;
    for (uint64_t count = chance() % 6; count > 0; --count) {
      const auto &[at, size] = weak[chance() % weak.size()];
      changed.push_back(at + chance() % size);
      const auto value = static_cast<char>(chance() % 3 == 0 ? 0xff : chance());
      if (pwrite(file, &value, 1, static_cast<off_t>(changed.back())) != 1) return fail("cannot write", copy);
    }
    if (number % 16 == 15 && ftruncate(file, static_cast<off_t>(chance() % bytes.size())) != 0) return 1;
    for (const SourceLine &line : warpline::source_lines(ElfFile(copy), some_places(chance), make_up)) {
      known += line.line != 0;
    }
    for (const auto &calls : warpline::inlined_calls(ElfFile(copy), some_places(chance), make_up)) {
      inlined += calls.size();
    }
    if (number % 16 == 15) {
      if (pwrite(file, bytes.data(), bytes.size(), 0) < 0) return 1;
    }
    for (const uint64_t at : changed) {
      if (pwrite(file, &bytes[at], 1, static_cast<off_t>(at)) != 1) return 1;
    }
  }
  close(file);
  unlink(copy.c_str());
  std::printf("%d copies, %zu lines, %zu inlined functions\n", copies, known, inlined);
  return known == 0 || inlined == 0 ? fail("no lines or inlined functions", "in any copy") : 0;
}

}  // namespace

int main(int count, char **words) {
  char path[4096] = {};
  if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return 1;
  const int copies = count > 1 ? std::atoi(words[1]) : 400;
  const uint64_t seed = count > 2 ? std::strtoull(words[2], nullptr, 10) : 1;
  return check_own_lines(path) + check_own_inlined(path) + read_damaged(path, copies, seed);
}
