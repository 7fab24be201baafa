#include "cupti/parameters.h"

#include <array>
#include <atomic>

#include "warpline_cuda.h"

namespace warpline::agent {
namespace {

struct Form {
  std::string_view start;
  Concerns concerns;
};
// By how a name begins: versions and variants have the same first parameters.
constexpr Form kForms[] = {
    {"StreamSynchronize", Concerns::kStream},
    {"StreamWaitEvent", Concerns::kStreamAndEvent},
    {"StreamBeginCapture", Concerns::kStream},
    {"StreamEndCapture", Concerns::kStream},
    {"EventRecord", Concerns::kEventAndStream},
    {"EventSynchronize", Concerns::kEvent},
    {"EventDestroy", Concerns::kEventOnly},
    {"CtxSynchronize_v2", Concerns::kGivenContext},
    {"CtxSynchronize", Concerns::kCurrentContext},
    {"DeviceSynchronize", Concerns::kCurrentContext},
    {"ThreadSynchronize", Concerns::kCurrentContext},
};

Concerns concerns_of(std::string_view name) noexcept {
  for (const Form& form : kForms) {
    if (name.starts_with(form.start)) return form.concerns;
  }
  return Concerns::kNothing;
}

template <std::size_t N>
bool is_one_of(std::string_view name, const std::string_view (&names)[N]) noexcept {
  for (const std::string_view one : names) {
    if (name == one) return true;
  }
  return false;
}

constexpr std::string_view kPlain[] = {
    "MemcpyToSymbol", "MemcpyToSymbolAsync", "MemcpyFromSymbol", "MemcpyFromSymbolAsync",
    "Memset",         "MemsetAsync",         "MemsetD8Async",    "MemsetD16Async",
    "MemsetD32Async",
};
// Of these the driver's first versions have other, shorter parameters.
constexpr std::string_view kPlainSecond[] = {
    "MemcpyHtoD",      "MemcpyDtoH",      "MemcpyDtoD", "MemcpyHtoDAsync", "MemcpyDtoHAsync",
    "MemcpyDtoDAsync", "MemsetD8",        "MemsetD16",  "MemsetD32",
};

Volume volume_of(std::string_view name, bool is_runtime) noexcept {
  const std::string_view base = name.substr(0, name.find('_'));
  if (base == "Memcpy" || base == "MemcpyAsync") {
    return is_runtime ? Volume::kWithKind : Volume::kPlain;
  }
  if (base == "MemcpyPeer" || base == "MemcpyPeerAsync") return Volume::kPeer;
  if (is_one_of(base, kPlain)) return Volume::kPlain;
  const bool is_second = name.substr(base.size()).starts_with("_v2");
  return is_second && is_one_of(base, kPlainSecond) ? Volume::kPlain : Volume::kUnknown;
}

template <class Form>
const Form& as(const cupti::CallData& call) noexcept {
  return *static_cast<const Form*>(call.parameters);
}

// Counts how often streams were forgotten.
std::atomic<std::uint32_t> g_streams_forgotten{0};

// The numbers of the streams that this thread used last, by handle.
struct KnownStream {
  const void* handle;
  std::uint32_t context;
  std::uint32_t number;
  bool is_per_thread;
  bool is_known;
};
struct KnownStreams {
  std::uint32_t forgotten;
  std::array<KnownStream, 32> streams;

  KnownStream& at(std::uint64_t handle) noexcept {
    return streams[handle * 0x9e3779b97f4a7c15u >> 59];  // mixed into five bits
  }
};
thread_local constinit KnownStreams t_known{0, {}};

std::uint32_t ask_stream(const cupti::Functions& functions, const cupti::CallData& call,
                         void* handle, bool is_per_thread) noexcept {
  std::uint32_t number = raw::kCudaNone;
  // A handle says its context; a thread's own stream is one in each context.
  void* context = handle == nullptr ? call.context : nullptr;
  if (functions.stream_id == nullptr ||
      functions.stream_id(context, handle, is_per_thread ? 1 : 0, &number) != cupti::kSuccess) {
    return raw::kCudaNone;
  }
  return number;
}

std::uint32_t stream_of(const cupti::Functions& functions, const cupti::CallData& call,
                        void* handle, bool is_per_thread) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  const bool is_own = value == cupti::kPerThreadStream || (value == 0 && is_per_thread);
  if (!is_own && (value == 0 || value == cupti::kLegacyStream)) return raw::kCudaNullStream;
  if (is_own) handle = nullptr;
  const std::uint32_t forgotten = g_streams_forgotten.load(std::memory_order_acquire);
  if (t_known.forgotten != forgotten) [[unlikely]] t_known = {forgotten, {}};
  KnownStream& known = t_known.at(value);
  const bool is_found = known.is_known && known.handle == handle &&
                        known.context == call.context_id && known.is_per_thread == is_own;
  if (!is_found) {
    const std::uint32_t number = ask_stream(functions, call, handle, is_own);
    known = {handle, call.context_id, number, is_own, true};
  }
  return known.number;
}

std::uint32_t context_of(const cupti::Functions& functions, const cupti::CallData& call) noexcept {
  std::uint32_t number = call.context_id;
  void* context = as<cupti::ContextParameters>(call).context;
  if (context != nullptr && context != call.context && functions.context_id != nullptr) {
    functions.context_id(context, &number);
  }
  return number;
}

void add_place(raw::Call& record, std::uint32_t stream, std::uint32_t context) noexcept {
  record.flags |= raw::Call::kHasPlace;
  record.stream = stream;
  record.context = context;
}

void add_event(raw::Call& record, const void* event) noexcept {
  record.flags |= raw::Call::kHasEvent;
  record.event = reinterpret_cast<std::uintptr_t>(event);
}

}  // namespace

Parameters parameters_of(std::string_view name, bool is_runtime) noexcept {
  return {concerns_of(name), volume_of(name, is_runtime), name.find("_ptsz") != name.npos};
}

void add_target(const cupti::Functions& functions, Parameters parameters,
                const cupti::CallData& call, raw::Call& record) noexcept {
  const auto stream = [&](void* handle) {
    return stream_of(functions, call, handle, parameters.is_per_thread);
  };
  if (parameters.concerns == Concerns::kCurrentContext) {
    add_place(record, raw::kCudaNone, call.context_id);
    return;
  }
  if (call.parameters == nullptr) return;
  switch (parameters.concerns) {
    case Concerns::kNothing:
    case Concerns::kCurrentContext: break;
    case Concerns::kGivenContext:
      add_place(record, raw::kCudaNone, context_of(functions, call));
      break;
    case Concerns::kStream:
      add_place(record, stream(as<cupti::StreamParameters>(call).stream), call.context_id);
      break;
    case Concerns::kStreamAndEvent: {
      const auto& both = as<cupti::StreamEventParameters>(call);
      add_place(record, stream(both.stream), call.context_id);
      add_event(record, both.event);
      break;
    }
    case Concerns::kEventAndStream: {
      const auto& both = as<cupti::EventStreamParameters>(call);
      add_place(record, stream(both.stream), call.context_id);
      add_event(record, both.event);
      break;
    }
    case Concerns::kEvent:
      add_place(record, raw::kCudaNone, call.context_id);
      add_event(record, as<cupti::EventParameters>(call).event);
      break;
    case Concerns::kEventOnly:
      add_event(record, as<cupti::EventParameters>(call).event);
      break;
  }
}

bool moves_nothing(Volume volume, const cupti::CallData& call) noexcept {
  if (call.parameters == nullptr) return false;
  switch (volume) {
    case Volume::kUnknown: return false;
    case Volume::kPlain: return as<cupti::CopyParameters>(call).bytes == 0;
    case Volume::kPeer: return as<cupti::PeerCopyParameters>(call).bytes == 0;
    case Volume::kWithKind: {
      const auto& copy = as<cupti::CopyKindParameters>(call);
      return copy.bytes == 0 || copy.kind == cupti::kHostToHost;
    }
  }
  return false;
}

void forget_streams() noexcept { g_streams_forgotten.fetch_add(1, std::memory_order_release); }

}  // namespace warpline::agent
