#include "fake_nvtx.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

#include "nvtx/abi.h"

namespace {

namespace nvtx = warpline::agent::nvtx;

constexpr unsigned kPlaces = 17;
nvtx::Function g_core[kPlaces] = {};
nvtx::Function g_core2[kPlaces] = {};
nvtx::Function g_other[kPlaces] = {};
nvtx::Function* g_core_table[kPlaces];
nvtx::Function* g_core2_table[kPlaces];
nvtx::Function* g_other_table[kPlaces];
std::mutex g_lock;
auto& g_domains = *new std::map<std::string, nvtx::Domain*>;
auto& g_ids = *new std::map<std::string, std::uint64_t>;

int get_table(std::int32_t module, nvtx::FunctionTable* table, unsigned* size) {
  *table = module == nvtx::kModuleCore    ? g_core_table
           : module == nvtx::kModuleCore2 ? g_core2_table
                                          : g_other_table;
  *size = kPlaces;
  return 1;
}

const void* get_export(std::uint32_t table) {
  static const nvtx::CallbackExport callbacks{sizeof callbacks, get_table};
  return table == nvtx::kExportCallbacks ? &callbacks : nullptr;
}

void bind() {
  static const bool is_bound = [] {
    for (unsigned i = 0; i < kPlaces; ++i) {
      g_core_table[i] = &g_core[i];
      g_core2_table[i] = &g_core2[i];
      g_other_table[i] = &g_other[i];
    }
    void* agent = dlopen(std::getenv("NVTX_INJECTION64_PATH"), RTLD_NOW | RTLD_LOCAL);
    if (agent == nullptr) std::exit(93);
    void* initialise = dlsym(agent, "InitializeInjectionNvtx2");
    return reinterpret_cast<int (*)(nvtx::GetExportTable)>(initialise)(get_export) == 1;
  }();
  if (!is_bound) std::exit(92);
}

template <class Called>
Called core2(unsigned place) {
  bind();
  return reinterpret_cast<Called>(g_core2[place]);
}

nvtx::Domain* domain_of(const std::string& name) {
  const auto create = core2<nvtx::Domain* (*)(const char*)>(nvtx::kDomainCreateA);
  if (name.empty()) return nullptr;
  const std::lock_guard held(g_lock);
  const auto [entry, is_new] = g_domains.try_emplace(name, nullptr);
  if (is_new) entry->second = create(name.c_str());
  return entry->second;
}

nvtx::EventAttributes attributes_of(const std::string& name) {
  nvtx::EventAttributes attributes{};
  attributes.version = nvtx::kVersion;
  attributes.bytes = sizeof attributes;
  attributes.message_type = nvtx::kMessageText;
  attributes.message.text = name.c_str();
  return attributes;
}

}  // namespace

void nvtx_push(const std::string& domain, const std::string& name) {
  const nvtx::EventAttributes attributes = attributes_of(name);
  const auto push =
      core2<int (*)(nvtx::Domain*, const nvtx::EventAttributes*)>(nvtx::kDomainRangePushEx);
  push(domain_of(domain), &attributes);
}

void nvtx_pop(const std::string& domain) {
  core2<int (*)(nvtx::Domain*)>(nvtx::kDomainRangePop)(domain_of(domain));
}

void nvtx_start(const std::string& domain, const std::string& name) {
  const nvtx::EventAttributes attributes = attributes_of(name);
  const auto start = core2<std::uint64_t (*)(nvtx::Domain*, const nvtx::EventAttributes*)>(
      nvtx::kDomainRangeStartEx);
  const std::uint64_t id = start(domain_of(domain), &attributes);
  const std::lock_guard held(g_lock);
  g_ids[name] = id;
}

void nvtx_end(const std::string& domain, const std::string& name) {
  const auto end = core2<void (*)(nvtx::Domain*, std::uint64_t)>(nvtx::kDomainRangeEnd);
  end(domain_of(domain), g_ids[name]);
}
