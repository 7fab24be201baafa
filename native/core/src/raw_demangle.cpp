#include "raw_demangle.h"

namespace warpline {

KernelName demangle_kernel(std::string_view mangled) {
  return {std::string(mangled), std::string(mangled)};
}

}  // namespace warpline
