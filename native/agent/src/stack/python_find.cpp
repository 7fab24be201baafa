#include "stack/python_find.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace warpline::agent {
namespace {

using stack::kFirstWithOffsets;
using stack::kOtherPython;
using stack::kUnknownPython;

template <class Function>
void find_symbol(Function*& function, const char* name, const char* other_name = nullptr) noexcept {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr && other_name != nullptr) found = dlsym(RTLD_DEFAULT, other_name);
  std::memcpy(&function, &found, sizeof function);
}

std::uint64_t address_of(const char* symbol) noexcept {
  return reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, symbol));
}

const char* check_own_offsets(unsigned minor, const stack::PythonLayout& layout) noexcept {
  const auto* offsets = reinterpret_cast<const stack::DebugOffsets*>(address_of("_PyRuntime"));
  return offsets == nullptr ? kUnknownPython : check_debug_offsets(*offsets, minor, layout);
}

// The minor version of Python 3, 0 for others.
unsigned python_version() noexcept {
  const char* (*get_version)() = nullptr;
  find_symbol(get_version, "Py_GetVersion");
  const char* text = get_version == nullptr ? "" : get_version();
  return std::strncmp(text, "3.", 2) == 0
             ? static_cast<unsigned>(std::strtoul(text + 2, nullptr, 10))
             : 0;
}

}  // namespace

bool find_python(Python& python, const char*& problem) noexcept {
  problem = nullptr;
  find_symbol(python.state_of_thread, "PyGILState_GetThisThreadState");
  if (python.state_of_thread == nullptr) return false;
  find_symbol(python.state_with_gil, "_PyThreadState_UncheckedGet", "PyThreadState_GetUnchecked");
  find_symbol(python.is_finalizing, "_Py_IsFinalizing", "Py_IsFinalizing");
  python.build.code_type = address_of("PyCode_Type");
  python.build.text_type = address_of("PyUnicode_Type");
  python.build.bytes_type = address_of("PyBytes_Type");
  const unsigned minor = python_version();
  const stack::PythonLayout* layout = stack::python_layout(minor);
  if (layout == nullptr) {
    problem = kOtherPython;
    return true;
  }
  const bool is_complete = python.state_with_gil != nullptr && python.is_finalizing != nullptr &&
                           python.build.has_types();
  if (!is_complete) {
    problem = kUnknownPython;
    return true;
  }
  python.build.layout = *layout;
  if (minor >= kFirstWithOffsets) problem = check_own_offsets(minor, *layout);
  return true;
}

}  // namespace warpline::agent
