#include "program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "forbidden_functions.h"

namespace warpline::attach {
namespace {

constexpr std::size_t kMostSystemCallCode = 256;

bool contains(const std::vector<AddressRange>& ranges, std::uint64_t address) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const AddressRange& each) { return each.holds(address); });
}

// In order and without overlaps, ranges are found by their ends.
bool contains_sorted(const std::vector<AddressRange>& ranges, std::uint64_t address) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                      [](std::uint64_t place, const AddressRange& each) { return place < each.begin; });
  return after != ranges.begin() && (after - 1)->holds(address);
}

template <std::size_t kCount>
void find_all(const ExportedFunctions& exported, const char* const (&names)[kCount], std::vector<AddressRange>& found) {
  for (const char* name : names) {
    const AddressRange code = exported.find(name);
    if (code.end != 0) found.push_back(code);
  }
}

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string link_target(const std::string& path) {
  char target[4096];
  const ssize_t bytes = readlink(path.c_str(), target, sizeof target);
  return bytes < 0 ? std::string() : std::string(target, static_cast<std::size_t>(bytes));
}

bool is_named(const std::string& path, const char* prefix) {
  return path.compare(path.rfind('/') + 1, std::strlen(prefix), prefix) == 0;
}

}  // namespace

bool Program::is_executed() const { return content_of(folder_of(pid_) + "/auxv") == vector_; }

bool Program::read() {
  code_.clear();
  modules_.clear();
  const std::string folder = folder_of(pid_);
  // First: what is mapped later may be of another program, then, but never taken for this one's.
  std::string vector = content_of(folder + "/auxv");
  is_new_ = vector != vector_;
  vector_ = std::move(vector);
  const std::string main_path = link_target(folder + "/exe");
  std::ifstream maps(folder + "/maps");
  for (std::string line; std::getline(maps, line);) add(line, main_path);
  std::sort(modules_.begin(), modules_.end(),
            [](const Module& one, const Module& other) { return one.code.begin < other.code.begin; });
  add_entries();
  return !modules_.empty();
}

void Program::add(const std::string& line, const std::string& main_path) {
  std::uint64_t begin = 0, end = 0, offset = 0;
  unsigned int major_number = 0, minor_number = 0;
  std::uint64_t inode = 0;
  char rights[5] = {};
  int path_at = 0;
  const int got = std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &begin,
                              &end, rights, &offset, &major_number, &minor_number, &inode, &path_at);
  if (got != 7 || rights[2] != 'x' || begin >= end) return;
  sampler::CodeMapping mapping;
  mapping.begin = begin;
  mapping.end = end;
  mapping.path = line.substr(static_cast<std::size_t>(path_at));
  if (mapping.path == "[vdso]") {
    mapping.file = files_.vdso();
    mapping.bias = begin;
  } else if (inode != 0 && mapping.path[0] == '/') {
    mapping.file = files_.find(pid_, mapping.path, makedev(major_number, minor_number), inode);
    if (mapping.file != nullptr && !mapping.file->bias_of(begin, offset, mapping.bias)) mapping.file = nullptr;
  }
  if (mapping.file != nullptr) {
    modules_.push_back({{begin, end}, mapping.bias, mapping.file, &facts_of(*mapping.file),
                        mapping.path == main_path, mapping.path});
  }
  code_.add(mapping);
}

const Program::FileFacts& Program::facts_of(const sampler::ElfFile& file) {
  const auto known = facts_.find(&file);
  if (known != facts_.end()) return known->second;
  const ExportedFunctions exported(file.image());
  FileFacts facts;
  facts.is_loader = exported.find("__tls_get_addr").end != 0;
  facts.is_c_library = exported.find("gnu_get_libc_version").end != 0;
  facts.has_malloc = exported.find("malloc").end != 0;
  find_all(exported, kForbiddenFunctions, facts.forbidden);
  find_all(exported, kWaitingFunctions, facts.waiting);
  return facts_.emplace(&file, std::move(facts)).first->second;
}

// Within the C library, and within what allocates memory in its place, only a call of a function with a
// name is known to hold no lock: one that the C library exports, such as `read`, which sanitizers have, too.
void Program::add_entries() {
  const Module* libc = c_library();
  if (libc == nullptr) return;
  std::set<std::string_view> names;
  for (const ExportedFunction& each : ExportedFunctions(libc->file->image()).all()) names.insert(each.name);
  for (const Module& module : modules_) {
    FileFacts& facts = facts_.at(module.file);
    const bool is_guarded = facts.is_c_library || (facts.has_malloc && !module.is_main);
    if (!is_guarded || !facts.entries.empty()) continue;
    for (const ExportedFunction& each : ExportedFunctions(module.file->image()).all()) {
      if (names.count(each.name) != 0) facts.entries.push_back(each.code);
    }
    std::sort(facts.entries.begin(), facts.entries.end(),
              [](const AddressRange& one, const AddressRange& other) { return one.begin < other.begin; });
  }
}

const Program::Module* Program::module_of(std::uint64_t address) const {
  const auto after = std::upper_bound(modules_.begin(), modules_.end(), address,
                                      [](std::uint64_t place, const Module& each) { return place < each.code.begin; });
  return after == modules_.begin() || !(after - 1)->code.holds(address) ? nullptr : &*(after - 1);
}

bool Program::may_return_to_forbidden(std::uint64_t address) const {
  return place_of(address - 1) == Place::kForbidden &&
         module_of(address - 1)->file->is_behind_call(address - module_of(address - 1)->bias);
}

Program::Place Program::place_of(std::uint64_t address) const {
  const Module* const module = module_of(address);
  if (module == nullptr) return Place::kPlain;
  const FileFacts& facts = *module->facts;
  const std::uint64_t in_file = address - module->bias;
  if (facts.is_loader || contains(facts.forbidden, in_file)) return Place::kForbidden;
  if (contains(facts.waiting, in_file)) return Place::kWaiting;
  if (facts.entries.empty()) return Place::kPlain;
  return contains_sorted(facts.entries, in_file) ? Place::kEntry : Place::kInside;
}

const Program::Module* Program::c_library() const {
  const auto found = std::find_if(modules_.begin(), modules_.end(),
                                  [](const Module& each) { return each.facts->is_c_library; });
  return found == modules_.end() ? nullptr : &*found;
}

// Before 2.34, glibc had libraries of their own for threads and for loading.
std::uint64_t Program::find(std::string_view name, const char* other_library) const {
  for (const Module& module : modules_) {
    const bool is_meant = module.facts->is_c_library || is_named(module.path, other_library);
    const AddressRange code = is_meant ? ExportedFunctions(module.file->image()).find(name) : AddressRange{};
    if (code.end != 0) return module.bias + code.begin;
  }
  return 0;
}

std::uint64_t Program::find_system_call() const {
  const Module* libc = c_library();
  const stack::ElfImage image = libc->file->image();
  const AddressRange code = ExportedFunctions(image).find("syscall");
  const std::size_t bytes = std::min<std::uint64_t>(code.end - code.begin, kMostSystemCallCode);
  if (bytes < 2 || !stack::holds(image, image.bias + code.begin + bytes - 1)) return 0;
  const auto* text = reinterpret_cast<const unsigned char*>(image.bias + code.begin);
  for (std::size_t i = 0; i + 1 < bytes; ++i) {
    if (text[i] == 0x0f && text[i + 1] == 0x05) return libc->bias + code.begin + i;
  }
  return 0;
}

const char* Program::find_functions(LibraryFunctions& found) const {
  if (c_library() == nullptr) return "glibc";
  const struct {
    const char* name;
    const char* other_library;
    std::uint64_t& address;
  } wanted[] = {
      {"__errno_location", "libpthread", found.errno_location},
      {"pthread_create", "libpthread", found.pthread_create},
      {"pthread_self", "libpthread", found.pthread_self},
      {"pthread_detach", "libpthread", found.pthread_detach},
      {"dlopen", "libdl", found.dlopen},
      {"dlsym", "libdl", found.dlsym},
      {"dlerror", "libdl", found.dlerror},
      {"munmap", "libc", found.munmap},
  };
  for (const auto& each : wanted) {
    each.address = find(each.name, each.other_library);
    if (each.address == 0) return each.name;
  }
  found.system_call = find_system_call();
  return found.system_call == 0 ? "syscall" : nullptr;
}

}  // namespace warpline::attach
