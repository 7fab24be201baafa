// What the instances of NVTX call: the functions of the payload extension. Of the counters
// extension only that it is used.
#include <atomic>

#include "nvtx/abi.h"
#include "nvtx/events.h"
#include "nvtx/names.h"
#include "nvtx/schemas.h"
#include "session/clock.h"
#include "session/process.h"
#include "warpline_payload.h"

namespace warpline::agent::nvtx {
namespace {

constinit std::atomic<std::uint64_t> g_next_id{raw::kFirstDynamicSchema};  // of scopes and the like

// The two layouts are the same as far as we read them; finishing wants to know which it was.
template <std::uint16_t kCompatId>
std::uint64_t schema_register(Domain* domain, const SchemaAttributes* attributes) {
  return attributes == nullptr ? 0 : register_schema(domain_of(domain), *attributes, kCompatId);
}
template <std::uint16_t kCompatId>
std::uint64_t enum_register(Domain* domain, const EnumAttributes* attributes) {
  return attributes == nullptr ? 0 : register_enum(domain_of(domain), *attributes, kCompatId);
}

void mark_payload(Domain* domain, const Payload* payloads, std::size_t count) {
  mark(domain_of(domain), Given::payloads(payloads, count));
}
int push_payload(Domain* domain, const Payload* payloads, std::size_t count) {
  return push_range(domain_of(domain), Given::payloads(payloads, count));
}
int pop_payload(Domain* domain, const Payload* payloads, std::size_t count) {
  return pop_range(domain_of(domain), Given::payloads(payloads, payloads == nullptr ? 0 : count));
}
std::uint64_t start_payload(Domain* domain, const Payload* payloads, std::size_t count) {
  return start_range(domain_of(domain), Given::payloads(payloads, count));
}
void end_payload(Domain* domain, std::uint64_t id, const Payload* payloads, std::size_t count) {
  stop_range(domain_of(domain), id, Given::payloads(payloads, payloads == nullptr ? 0 : count));
}
// Programs ask once and keep the answer, and a later session of the process may want other domains.
// The events of a domain that is not wanted now cost next to nothing.
std::uint8_t domain_is_enabled(Domain*) { return 1; }
std::int64_t timestamp_get() { return now_ns(); }

// Programs go on with these ids, but nothing is kept of what they stand for.
std::uint64_t next_id(std::uint64_t own) noexcept {
  return own != 0 ? own : g_next_id.fetch_add(1, std::memory_order_relaxed);
}
std::uint64_t scope_register(Domain*, const ScopeAttributes* attributes) {
  if (attributes == nullptr || attributes->bytes < sizeof *attributes) return 0;
  return next_id(attributes->id);
}
std::uint64_t time_domain_register(Domain*, const TimeDomainAttributes* attributes) {
  return attributes == nullptr ? 0 : next_id(attributes->id);
}
std::uint64_t counter_register(Domain*, const CounterAttributes* attributes) {
  note_once(raw::Note::kNvtxUnknownCall, "nvtxCounterRegister");
  if (attributes == nullptr || attributes->bytes < sizeof *attributes) return 0;
  return next_id(attributes->id);
}
void event_submit(Domain*, const Payload*, std::size_t) {
  note_once(raw::Note::kNvtxUnknownCall, "nvtxEventSubmit");
}
void event_batch_submit(Domain*, const void*) {
  note_once(raw::Note::kNvtxUnknownCall, "nvtxEventBatchSubmit");
}

template <class Called>
void set(ExtensionModule& module, std::size_t at, Called* function) {
  ExtensionSegment& segment = module.segment[0];
  if (at < segment.slots) segment.functions[at] = reinterpret_cast<std::intptr_t>(function);
}

template <std::uint16_t kCompatId>
void fill_registration(ExtensionModule& module) {
  set(module, kSchemaRegister, schema_register<kCompatId>);
  set(module, kEnumRegister, enum_register<kCompatId>);
}

void fill_payload(ExtensionModule& module) {
  if (module.compat_id == raw::kOldestCompatId) {
    fill_registration<raw::kOldestCompatId>(module);
  } else {
    fill_registration<raw::kNewestCompatId>(module);
  }
  set(module, kMarkPayload, mark_payload);
  set(module, kRangePushPayload, push_payload);
  set(module, kRangePopPayload, pop_payload);
  set(module, kRangeStartPayload, start_payload);
  set(module, kRangeEndPayload, end_payload);
  set(module, kDomainIsEnabled, domain_is_enabled);
  set(module, kScopeRegister, scope_register);
  set(module, kTimestampGet, timestamp_get);
  set(module, kTimeDomainRegister, time_domain_register);
  set(module, kEventSubmit, event_submit);
  set(module, kEventBatchSubmit, event_batch_submit);
}

void note_unknown(const ExtensionModule& module) {
  constexpr char kDigits[] = "0123456789abcdef";
  char text[] = "NVTX extension 0x0000, compatibility 0x0000";
  for (int digit = 0; digit < 4; ++digit) {
    text[20 - digit] = kDigits[module.module >> (4 * digit) & 15];
    text[42 - digit] = kDigits[module.compat_id >> (4 * digit) & 15];
  }
  note_once(raw::Note::kPayloadUnknown, text);
}

}  // namespace
}  // namespace warpline::agent::nvtx

// Called once for every extension of every instance of NVTX. Returning 0 makes its functions do
// nothing from then on, and tells programs that no domain is enabled. So an extension of an
// unknown version gets 1 and no functions: then it does nothing, but says that domains are on.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    warpline::agent::nvtx::ExtensionModule* module) {
  using namespace warpline::agent;
  namespace raw = warpline::raw;
  if (module == nullptr || !ensure_attached()) return 0;
  const bool is_whole = module->bytes >= sizeof *module && module->segments >= 1 &&
                        module->segment != nullptr && module->segment->functions != nullptr;
  if (!is_whole) return 0;
  const std::uint16_t compat_id = module->compat_id;
  if (module->module == nvtx::kExtensionPayload && compat_id >= raw::kOldestCompatId &&
      compat_id <= raw::kNewestCompatId) {
    nvtx::fill_payload(*module);
  } else if (module->module == nvtx::kExtensionCounters) {
    nvtx::set(*module, nvtx::kCounterRegister, nvtx::counter_register);
  } else {
    nvtx::note_unknown(*module);
  }
  return 1;
}
