// The names of functions, from the files that their code came from.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace warpline {

using BuildId = std::array<uint8_t, 24>;  // zeros behind it; all zeros: none

// Returns the mangled name of the function at each address, empty where the file names none.
// Addresses are the file's own, in ascending order. A file that cannot be read, is no ELF file of 64
// bits, or is not the requested build, yields no names: it was replaced since, or is malicious.
std::vector<std::string> function_names(const std::string &path, const BuildId &build,
                                        const std::vector<uint64_t> &addresses);

}  // namespace warpline
