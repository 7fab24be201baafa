// Prints which of a machine's GPUs is meant, for tests in Python: see machine/gpus.h.
//
//     gpu_number folder FOLDER DOMAIN BUS DEVICE
//     gpu_number list NUMBERS DEVICE
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "machine/gpus.h"

int main(int count, char** words) {
  const auto number = [words](int at) { return std::strtoull(words[at], nullptr, 16); };
  if (count == 6 && std::strcmp(words[1], "folder") == 0) {
    const std::uint64_t pci = number(3) | number(4) << 32 | number(5) << 48;
    std::printf("%d\n", warpline::agent::number_in_folder(words[2], pci));
  } else if (count == 4 && std::strcmp(words[1], "list") == 0) {
    std::printf("%d\n", warpline::agent::number_in_list(words[2], static_cast<std::uint32_t>(number(3))));
  } else {
    return 1;
  }
  return 0;
}
