// NVTX's core functions, which its instances call: ranges, marks, domains, names.
#include <dlfcn.h>

#include "nvtx/abi.h"
#include "nvtx/binding.h"
#include "nvtx/events.h"
#include "nvtx/names.h"
#include "session/process.h"

namespace warpline::agent::nvtx {
namespace {

constexpr Given kNoPayloads{Given::Form::kPayloads, nullptr, 0};

void mark_ex(const EventAttributes* attributes) {
  mark(default_domain(), Given::attributes(attributes));
}
void mark_a(const char* text) { mark(default_domain(), Given::text(text)); }
void mark_w(const wchar_t* text) { mark(default_domain(), Given::wide(text)); }
std::uint64_t start_ex(const EventAttributes* attributes) {
  return start_range(default_domain(), Given::attributes(attributes));
}
std::uint64_t start_a(const char* text) { return start_range(default_domain(), Given::text(text)); }
std::uint64_t start_w(const wchar_t* text) {
  return start_range(default_domain(), Given::wide(text));
}
void end(std::uint64_t id) { stop_range(default_domain(), id, kNoPayloads); }
int push_ex(const EventAttributes* attributes) {
  return push_range(default_domain(), Given::attributes(attributes));
}
int push_a(const char* text) { return push_range(default_domain(), Given::text(text)); }
int push_w(const wchar_t* text) { return push_range(default_domain(), Given::wide(text)); }
int pop() { return pop_range(default_domain(), kNoPayloads); }

void name_category_a(std::uint32_t category, const char* name) {
  if (name != nullptr) name_category(default_domain(), category, bounded(name));
}
void name_category_w(std::uint32_t category, const wchar_t* name) {
  Utf8Text text;
  if (name != nullptr) name_category(default_domain(), category, text.from_wide(name));
}
void name_thread_a(std::uint32_t tid, const char* name) {
  if (name != nullptr) name_thread(tid, bounded(name));
}
void name_thread_w(std::uint32_t tid, const wchar_t* name) {
  Utf8Text text;
  if (name != nullptr) name_thread(tid, text.from_wide(name));
}

void domain_mark_ex(Domain* domain, const EventAttributes* attributes) {
  mark(domain_of(domain), Given::attributes(attributes));
}
std::uint64_t domain_start_ex(Domain* domain, const EventAttributes* attributes) {
  return start_range(domain_of(domain), Given::attributes(attributes));
}
void domain_end(Domain* domain, std::uint64_t id) {
  stop_range(domain_of(domain), id, kNoPayloads);
}
int domain_push_ex(Domain* domain, const EventAttributes* attributes) {
  return push_range(domain_of(domain), Given::attributes(attributes));
}
int domain_pop(Domain* domain) { return pop_range(domain_of(domain), kNoPayloads); }

void name_resource_or_thread(const ResourceAttributes& attributes, std::string_view name) noexcept {
  const auto type = static_cast<std::uint32_t>(attributes.type);
  if (type == kResourceNativeThread) {
    name_thread(static_cast<std::uint32_t>(attributes.identifier), name);
  } else {
    name_resource(type, attributes.identifier, name);
  }
}

void* resource_create(Domain*, const ResourceAttributes* attributes) {
  static char resource;  // programs only hand it to resource_destroy
  if (attributes == nullptr || attributes->bytes < sizeof *attributes) return nullptr;
  const MessageValue& message = attributes->message;
  Utf8Text text;
  if (attributes->message_type == kMessageText && message.text != nullptr) {
    name_resource_or_thread(*attributes, bounded(message.text));
  } else if (attributes->message_type == kMessageWide && message.wide != nullptr) {
    name_resource_or_thread(*attributes, text.from_wide(message.wide));
  } else if (attributes->message_type == kMessageRegistered && message.registered != nullptr) {
    name_resource_or_thread(*attributes, message.registered->view());
  }
  return &resource;
}
void resource_destroy(void*) {}

void domain_name_category_a(Domain* domain, std::uint32_t category, const char* name) {
  if (name != nullptr) name_category(domain_of(domain), category, bounded(name));
}
void domain_name_category_w(Domain* domain, std::uint32_t category, const wchar_t* name) {
  Utf8Text text;
  if (name != nullptr) name_category(domain_of(domain), category, text.from_wide(name));
}
const RegisteredText* register_a(Domain*, const char* text) {
  return text == nullptr ? nullptr : register_text(bounded(text));
}
const RegisteredText* register_w(Domain*, const wchar_t* wide) {
  Utf8Text text;
  return wide == nullptr ? nullptr : register_text(text.from_wide(wide));
}
Domain* domain_create_a(const char* name) {
  return name == nullptr ? nullptr : create_domain(bounded(name));
}
Domain* domain_create_w(const wchar_t* name) {
  Utf8Text text;
  return name == nullptr ? nullptr : create_domain(text.from_wide(name));
}
// The handle stays good: another thread may use it, and the name may be created again.
void domain_destroy(Domain*) {}
void initialize(const void*) {}

template <std::uint32_t kType, class Identifier>
void name_object(Identifier object, const char* name) {
  if (name == nullptr) return;
  name_resource(kType, static_cast<std::uint64_t>(object), bounded(name));
}
template <std::uint32_t kType, class Identifier>
void name_object_w(Identifier object, const wchar_t* name) {
  Utf8Text text;
  if (name == nullptr) return;
  name_resource(kType, static_cast<std::uint64_t>(object), text.from_wide(name));
}

struct Place {
  unsigned int at;
  Function function;
};

template <class Called>
Place place(unsigned int at, Called* function) {
  return {at, reinterpret_cast<Function>(function)};
}

// Device numbers are ints, other objects pointers, passed alike.
template <std::uint32_t kType>
Place place_device(unsigned int at) {
  return place(at, name_object<kType, int>);
}
template <std::uint32_t kType>
Place place_device_w(unsigned int at) {
  return place(at, name_object_w<kType, int>);
}
template <std::uint32_t kType>
Place place_object(unsigned int at) {
  return place(at, name_object<kType, std::uintptr_t>);
}
template <std::uint32_t kType>
Place place_object_w(unsigned int at) {
  return place(at, name_object_w<kType, std::uintptr_t>);
}

template <std::size_t kCount>
bool write(const Tables& tables, Module module, const Place (&places)[kCount]) noexcept {
  FunctionTable table = nullptr;
  unsigned int size = 0;
  if (!tables.find(tables.context, module, table, size) || table == nullptr) return false;
  for (const Place& place : places) {
    if (place.at >= size || table[place.at] == nullptr) continue;
    __atomic_store_n(table[place.at], place.function, __ATOMIC_RELEASE);
  }
  return true;
}

bool write_ends(const Tables& tables) noexcept {
  const Place core[] = {place(kRangeEnd, end), place(kRangePop, pop)};
  const Place core2[] = {place(kDomainRangeEnd, domain_end), place(kDomainRangePop, domain_pop)};
  const bool has_core = write(tables, kModuleCore, core);
  return write(tables, kModuleCore2, core2) && has_core;
}

void write_core(const Tables& tables) noexcept {
  const Place core[] = {
      place(kMarkEx, mark_ex),
      place(kMarkA, mark_a),
      place(kMarkW, mark_w),
      place(kRangeStartEx, start_ex),
      place(kRangeStartA, start_a),
      place(kRangeStartW, start_w),
      place(kRangePushEx, push_ex),
      place(kRangePushA, push_a),
      place(kRangePushW, push_w),
      place(kNameCategoryA, name_category_a),
      place(kNameCategoryW, name_category_w),
      place(kNameOsThreadA, name_thread_a),
      place(kNameOsThreadW, name_thread_w),
  };
  const Place core2[] = {
      place(kDomainMarkEx, domain_mark_ex),
      place(kDomainRangeStartEx, domain_start_ex),
      place(kDomainRangePushEx, domain_push_ex),
      place(kDomainResourceCreate, resource_create),
      place(kDomainResourceDestroy, resource_destroy),
      place(kDomainNameCategoryA, domain_name_category_a),
      place(kDomainNameCategoryW, domain_name_category_w),
      place(kDomainRegisterStringA, register_a),
      place(kDomainRegisterStringW, register_w),
      place(kDomainCreateA, domain_create_a),
      place(kDomainCreateW, domain_create_w),
      place(kDomainDestroy, domain_destroy),
      place(kInitialize, initialize),
  };
  write(tables, kModuleCore, core);
  write(tables, kModuleCore2, core2);
}

void write_cuda(const Tables& tables) noexcept {
  constexpr std::uint32_t kDriver = kGroupCudaDriver;
  constexpr std::uint32_t kRuntime = kGroupCudaRuntime;
  const Place driver[] = {
      place_device<resource_type(kDriver, 1)>(kNameCuDeviceA),
      place_device_w<resource_type(kDriver, 1)>(kNameCuDeviceW),
      place_object<resource_type(kDriver, 2)>(kNameCuContextA),
      place_object_w<resource_type(kDriver, 2)>(kNameCuContextW),
      place_object<resource_type(kDriver, 3)>(kNameCuStreamA),
      place_object_w<resource_type(kDriver, 3)>(kNameCuStreamW),
      place_object<resource_type(kDriver, 4)>(kNameCuEventA),
      place_object_w<resource_type(kDriver, 4)>(kNameCuEventW),
  };
  const Place runtime[] = {
      place_device<resource_type(kRuntime, 0)>(kNameCudaDeviceA),
      place_device_w<resource_type(kRuntime, 0)>(kNameCudaDeviceW),
      place_object<resource_type(kRuntime, 1)>(kNameCudaStreamA),
      place_object_w<resource_type(kRuntime, 1)>(kNameCudaStreamW),
      place_object<resource_type(kRuntime, 2)>(kNameCudaEventA),
      place_object_w<resource_type(kRuntime, 2)>(kNameCudaEventW),
  };
  write(tables, kModuleCuda, driver);
  write(tables, kModuleCudaRt, runtime);
}

void tell_version(GetExportTable get_table) {
  const auto* version = static_cast<const VersionExport*>(get_table(kExportVersion));
  if (version != nullptr && version->bytes >= sizeof *version &&
      version->set_tool_version != nullptr) {
    version->set_tool_version(kVersion);
  }
}

// Of an instance that has called us.
bool find_exported(const void* callbacks, Module module, FunctionTable& table, unsigned& size) noexcept {
  return static_cast<const CallbackExport*>(callbacks)->get_table(module, &table, &size) != 0;
}

const char* file_of(GetExportTable get_table) {
  Dl_info where;
  const bool is_found = dladdr(reinterpret_cast<const void*>(get_table), &where) != 0;
  return is_found ? where.dli_fname : nullptr;
}

}  // namespace

bool write_functions(const Tables& tables) noexcept {
  if (!write_ends(tables)) return false;
  write_core(tables);
  write_cuda(tables);
  return true;
}

}  // namespace warpline::agent::nvtx

// Called once by every instance of NVTX. Returning 0 makes its functions do nothing from then on.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    warpline::agent::nvtx::GetExportTable get_table) {
  using namespace warpline::agent;
  if (get_table == nullptr || !ensure_attached()) return 0;
  const auto* callbacks =
      static_cast<const nvtx::CallbackExport*>(get_table(nvtx::kExportCallbacks));
  if (callbacks == nullptr || callbacks->bytes < sizeof *callbacks) return 0;
  if (!nvtx::write_functions({callbacks, nvtx::find_exported})) return 0;
  nvtx::tell_version(get_table);
  note_nvtx_bound(nvtx::file_of(get_table));
  return 1;
}
