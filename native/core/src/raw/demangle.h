// The names of kernels as people read them.
#pragma once

#include <string>
#include <string_view>

namespace warpline {

struct KernelName {
  std::string full;  // with template arguments and parameters
  std::string base;  // the function's own name
};

// Reads the name that a C++ compiler gave a kernel, in the words of NVIDIA's tools. One that is no
// such name, or nests or unfolds beyond reason, is returned as it is.
KernelName demangle_kernel(std::string_view mangled);

}  // namespace warpline
