#include "stack/python_find.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "stack/loaded_modules.h"
#include "stack/walk.h"

namespace warpline::agent {
namespace {

using stack::kFirstWithOffsets;
using stack::kOtherPython;
using stack::kUnknownPython;

// Where symbols are looked up: in the modules of the calling thread's stack, of which one is the interpreter's if
// Python has called; or by dlsym, which takes the loader's lock.
class Symbols {
 public:
  explicit Symbols(bool may_lock) noexcept : may_lock_(may_lock || !finds_modules()) {
    if (may_lock_) return;
    NativeStack stack;
    walk_stack(stack);
    for (std::size_t i = 0; i < stack.count && count_ < kMost; ++i) {
      LoadedModule& next = modules_[count_];
      if (find_module(stack.frames[i] - 1, next) && !has(next.begin)) ++count_;
    }
  }

  std::uint64_t find(const char* name) const noexcept {
    if (may_lock_) return reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, name));
    for (std::size_t i = 0; i < count_; ++i) {
      if (const std::uint64_t found = symbol_in(modules_[i], name)) return found;
    }
    return 0;
  }

  template <class Function>
  void find(Function*& function, const char* name, const char* other_name = nullptr) const noexcept {
    std::uint64_t found = find(name);
    if (found == 0 && other_name != nullptr) found = find(other_name);
    function = reinterpret_cast<Function*>(found);
  }

 private:
  static constexpr std::size_t kMost = 16;

  bool has(std::uint64_t begin) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (modules_[i].begin == begin) return true;
    }
    return false;
  }

  bool may_lock_;
  std::size_t count_ = 0;
  LoadedModule modules_[kMost];
};

const char* check_own_offsets(const Symbols& symbols, unsigned minor,
                              const stack::PythonLayout& layout) noexcept {
  const auto* offsets = reinterpret_cast<const stack::DebugOffsets*>(symbols.find("_PyRuntime"));
  return offsets == nullptr ? kUnknownPython : check_debug_offsets(*offsets, minor, layout);
}

// The minor version of Python 3, 0 for others.
unsigned python_version(const Symbols& symbols) noexcept {
  const char* (*get_version)() = nullptr;
  symbols.find(get_version, "Py_GetVersion");
  const char* text = get_version == nullptr ? "" : get_version();
  return std::strncmp(text, "3.", 2) == 0
             ? static_cast<unsigned>(std::strtoul(text + 2, nullptr, 10))
             : 0;
}

}  // namespace

bool find_python(Python& python, const char*& problem, bool may_lock) noexcept {
  const Symbols symbols(may_lock);
  problem = nullptr;
  symbols.find(python.state_of_thread, "PyGILState_GetThisThreadState");
  if (python.state_of_thread == nullptr) return false;
  symbols.find(python.state_with_gil, "_PyThreadState_UncheckedGet", "PyThreadState_GetUnchecked");
  symbols.find(python.is_finalizing, "_Py_IsFinalizing", "Py_IsFinalizing");
  python.build.code_type = symbols.find("PyCode_Type");
  python.build.text_type = symbols.find("PyUnicode_Type");
  python.build.bytes_type = symbols.find("PyBytes_Type");
  const unsigned minor = python_version(symbols);
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
  if (minor >= kFirstWithOffsets) problem = check_own_offsets(symbols, minor, *layout);
  return true;
}

}  // namespace warpline::agent
