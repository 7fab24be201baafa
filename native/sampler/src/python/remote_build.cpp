#include "python/remote_build.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "python/remote_memory.h"

namespace warpline::sampler {
namespace {

using stack::DebugOffsets;
using stack::PythonLayout;

// Of Python 3.9 to 3.12, made of its own headers; later versions say it themselves.
constexpr unsigned kOldest = 9, kNewest = 14;
constexpr RuntimeLayout kRuntimes[] = {
    {.interpreters = 32, .interpreter_next = 0, .interpreter_states = 8, .state_next = 8,
     .state_thread = 176, .is_native_thread = false, .runtime_gil = 352, .interpreter_gil = 0},
    {.interpreters = 32, .interpreter_next = 0, .interpreter_states = 8, .state_next = 8,
     .state_thread = 176, .is_native_thread = false, .runtime_gil = 352, .interpreter_gil = 0},
    {.interpreters = 40, .interpreter_next = 0, .interpreter_states = 16, .state_next = 8,
     .state_thread = 160, .is_native_thread = true, .runtime_gil = 360, .interpreter_gil = 0},
    {.interpreters = 40, .interpreter_next = 0, .interpreter_states = 72, .state_next = 8,
     .state_thread = 144, .is_native_thread = true, .runtime_gil = 0, .interpreter_gil = 384},
};

// ---- a process's files

struct MappedFile {
  std::uint64_t begin;  // of its first page
  std::string path;
};

std::string path_of_executable(pid_t pid) {
  char path[4096];
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  const ssize_t bytes = readlink(link.c_str(), path, sizeof path);
  return bytes < 0 ? std::string() : std::string(path, static_cast<std::size_t>(bytes));
}

// The files that may have an interpreter, libraries first: a program may be linked with one, whatever its
// name. `hint` is a path that has the version in it.
std::vector<MappedFile> files_of(pid_t pid, std::string& hint) {
  std::vector<MappedFile> libraries, programs;
  const std::string executable = path_of_executable(pid);
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t slash = line.find('/');
    if (slash == line.npos) continue;
    const std::string_view path = std::string_view(line).substr(slash);
    if (hint.empty() && path.find("/python3.") != path.npos) hint = path;
    unsigned long long begin = 0, end = 0, offset = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %*s %llx", &begin, &end, &offset) != 3) continue;
    if (offset != 0) continue;
    if (path == executable) {
      programs.push_back({begin, std::string(path)});
    } else if (may_have_python(path)) {
      libraries.push_back({begin, std::string(path)});
    }
  }
  libraries.insert(libraries.end(), programs.begin(), programs.end());
  return libraries;
}

// A file as it is, not its mapping in the process.
class File {
 public:
  explicit File(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat found {};
    if (file >= 0 && fstat(file, &found) == 0 && found.st_size > 0) {
      size_ = static_cast<std::size_t>(found.st_size);
      void* place = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (place != MAP_FAILED) bytes_ = static_cast<const char*>(place);
    }
    if (file >= 0) close(file);
  }
  ~File() {
    if (bytes_ != nullptr) munmap(const_cast<char*>(bytes_), size_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  template <class Item>
  bool read(std::uint64_t offset, Item& item) const {
    if (bytes_ == nullptr || offset > size_ || size_ - offset < sizeof item) return false;
    std::memcpy(&item, bytes_ + offset, sizeof item);
    return true;
  }
  std::string_view text(std::uint64_t offset) const {
    if (bytes_ == nullptr || offset >= size_) return {};
    return {bytes_ + offset, strnlen(bytes_ + offset, size_ - offset)};
  }

 private:
  const char* bytes_ = nullptr;
  std::size_t size_ = 0;
};

// ---- its symbols

struct Symbols {
  std::uint64_t runtime = 0;
  std::uint64_t version = 0;
  std::uint64_t code_type = 0;
  std::uint64_t text_type = 0;
  std::uint64_t bytes_type = 0;
  std::uint64_t evaluator = 0;
  std::uint64_t evaluator_end = 0;

  std::uint64_t* place_of(std::string_view name) {
    if (name == "_PyRuntime") return &runtime;
    if (name == "Py_Version") return &version;
    if (name == "PyCode_Type") return &code_type;
    if (name == "PyUnicode_Type") return &text_type;
    if (name == "PyBytes_Type") return &bytes_type;
    return nullptr;
  }
  bool is_whole() const {
    return runtime != 0 && code_type != 0 && text_type != 0 && bytes_type != 0;
  }
};

void read_symbols(const File& file, const Elf64_Shdr& table, const Elf64_Shdr& names,
                  std::uint64_t bias, Symbols& symbols) {
  for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    if (!file.read(table.sh_offset + at, symbol)) return;
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_value == 0 || (type != STT_OBJECT && type != STT_FUNC)) continue;
    const std::string_view name = file.text(names.sh_offset + symbol.st_name);
    if (name == "_PyEval_EvalFrameDefault") {
      symbols.evaluator = symbol.st_value + bias;
      symbols.evaluator_end = symbols.evaluator + symbol.st_size;
    }
    std::uint64_t* place = symbols.place_of(name);
    if (place != nullptr && *place == 0) *place = symbol.st_value + bias;
  }
}

// What its addresses are moved by, of a file whose first page lies at `begin`.
std::uint64_t bias_of(const File& file, const Elf64_Ehdr& head, std::uint64_t begin) {
  constexpr std::uint64_t kPage = 4096;
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.read(head.e_phoff + i * sizeof segment, segment)) break;
    if (segment.p_type != PT_LOAD || segment.p_offset >= kPage) continue;
    return begin - (segment.p_vaddr & ~(kPage - 1));
  }
  return begin;
}

bool find_symbols(const std::string& path, std::uint64_t begin, Symbols& symbols) {
  const File file(path);
  Elf64_Ehdr head;
  if (!file.read(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (head.e_ident[EI_CLASS] != ELFCLASS64) return false;
  const std::uint64_t bias = bias_of(file, head, begin);
  for (const std::uint32_t kind : {SHT_DYNSYM, SHT_SYMTAB}) {
    for (unsigned i = 0; i < head.e_shnum && !symbols.is_whole(); ++i) {
      Elf64_Shdr table, names;
      if (!file.read(head.e_shoff + i * sizeof table, table)) return false;
      if (table.sh_type != kind) continue;
      if (!file.read(head.e_shoff + table.sh_link * sizeof names, names)) continue;
      read_symbols(file, table, names, bias, symbols);
    }
  }
  return symbols.is_whole();
}

// ---- its version

// The minor version of Python 3 in a path, 0 for none.
unsigned version_in(std::string_view path) {
  for (std::size_t at = path.rfind("python3."); at != path.npos;) {
    unsigned minor = 0;
    for (const char digit : path.substr(at + 8)) {
      if (digit < '0' || digit > '9' || minor > 99) break;
      minor = minor * 10 + static_cast<unsigned>(digit - '0');
    }
    if (minor != 0) return minor;
    at = at == 0 ? path.npos : path.rfind("python3.", at - 1);
  }
  return 0;
}

unsigned version_of(pid_t pid, const Symbols& symbols, std::string_view path,
                    std::string_view hint) {
  std::uint64_t version = 0;
  if (symbols.version != 0 && copy_from(pid, symbols.version, &version, sizeof version) &&
      version >> 24 == 3) {
    return version >> 16 & 0xff;
  }
  const unsigned named = version_in(path);
  return named != 0 ? named : version_in(hint);
}

// From 3.13 on.
RuntimeLayout layout_of(const DebugOffsets& offsets, unsigned minor) {
  const unsigned state = stack::debug_groups(minor).state;
  const auto word = [&](unsigned i) { return static_cast<std::uint32_t>(offsets.words[i]); };
  // 3.14 has a word more of an interpreter before its GIL.
  const unsigned gil = minor == stack::kFirstWithOffsets ? 11 : 12;
  return {.interpreters = word(2),
          .interpreter_next = word(5),
          .interpreter_states = word(6),
          .state_next = word(state + 2),
          .state_thread = word(state + 6),
          .is_native_thread = true,
          .runtime_gil = 0,
          .interpreter_gil = word(gil)};
}

const char* lay_out(pid_t pid, unsigned minor, RemoteBuild& build) {
  const PythonLayout* layout = stack::python_layout(minor);
  if (layout == nullptr || minor > kNewest) return "only Python 3.9 to 3.14 are sampled";
  build.python.layout = *layout;
  if (minor < stack::kFirstWithOffsets) {
    build.places = kRuntimes[minor - kOldest];
    return nullptr;
  }
  DebugOffsets offsets;
  if (!copy_from(pid, build.runtime, &offsets, sizeof offsets)) return stack::kUnknownPython;
  const char* problem = check_debug_offsets(offsets, minor, *layout);
  if (problem == nullptr) build.places = layout_of(offsets, minor);
  return problem;
}

}  // namespace

bool may_have_python(std::string_view path) noexcept {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libpython3") || name.starts_with("python");
}

bool find_python(pid_t pid, RemoteBuild& build, const char*& problem) {
  problem = nullptr;
  std::string hint;
  const std::string root = "/proc/" + std::to_string(pid) + "/root";
  for (const MappedFile& file : files_of(pid, hint)) {
    Symbols symbols;
    if (!find_symbols(root + file.path, file.begin, symbols)) continue;
    build.runtime = symbols.runtime;
    build.python.code_type = symbols.code_type;
    build.python.text_type = symbols.text_type;
    build.python.bytes_type = symbols.bytes_type;
    build.evaluator = symbols.evaluator;
    build.evaluator_end = symbols.evaluator_end;
    char byte;
    errno = 0;
    if (!copy_from(pid, build.runtime, &byte, 1)) {
      // One that is ending, or becoming another program, is no sign of a refusal.
      const bool is_refused = (errno == EPERM || errno == ENOSYS) && !files_of(pid, hint).empty();
      if (is_refused) problem = "the kernel does not allow process_vm_readv";
      return is_refused;
    }
    problem = lay_out(pid, version_of(pid, symbols, file.path, hint), build);
    return true;
  }
  return false;
}

}  // namespace warpline::sampler
