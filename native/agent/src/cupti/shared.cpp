#include "cupti/shared.h"

#include <atomic>

namespace warpline::agent {
namespace {

// What the functions below use; never freed. They are called by any thread, as long as there is a
// subscriber and for buffers that come late.
std::atomic<const CuptiLibrary*> g_library{nullptr};
std::atomic<cupti::Subscriber> g_subscriber{nullptr};
std::atomic<cupti::RequestBuffer> g_buffer_wanted{nullptr};
std::atomic<cupti::BufferDone> g_buffer_done{nullptr};

const CuptiLibrary& library() noexcept { return *g_library.load(std::memory_order_acquire); }
const cupti::SubscriberFunctions& shared() noexcept { return library().shared; }
cupti::Subscriber subscriber() noexcept { return g_subscriber.load(std::memory_order_acquire); }

// ---- what CUPTI calls

void on_buffer_wanted(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records,
                      const void*) {
  g_buffer_wanted.load(std::memory_order_acquire)(buffer, bytes, max_records);
}

void on_buffer_done(std::uint8_t* buffer, std::size_t bytes, std::size_t valid_bytes, const void*) {
  g_buffer_done.load(std::memory_order_acquire)(nullptr, 0, buffer, bytes, valid_bytes);
}

// ---- in place of version 1

cupti::Result register_callbacks(cupti::RequestBuffer wanted, cupti::BufferDone done) {
  g_buffer_wanted.store(wanted, std::memory_order_release);
  g_buffer_done.store(done, std::memory_order_release);
  return shared().register_callbacks(subscriber(), on_buffer_wanted, on_buffer_done);
}

cupti::Result enable(cupti::Kind kind) { return shared().enable(subscriber(), kind, nullptr); }

cupti::Result disable(cupti::Kind kind) { return shared().disable(subscriber(), kind, nullptr); }

cupti::Result enable_and_dump(cupti::Kind kind) {
  return shared().enable_and_dump(subscriber(), kind, nullptr);
}

// There is no flush of one subscriber's buffers. Complete ones lose nothing by coming early; to force
// it would hand the others their unfinished records, and those would never be finished.
cupti::Result flush_all(std::uint32_t) { return library().own.flush_all(0); }

cupti::Result next_record(std::uint8_t* buffer, std::size_t valid_bytes, cupti::Activity** record) {
  return shared().next_record(subscriber(), buffer, valid_bytes, record);
}

cupti::Result dropped_records(void* context, std::uint32_t stream, std::size_t* count) {
  return shared().dropped_records(subscriber(), context, stream, count);
}

cupti::Result get_timestamp(std::uint64_t* time) {
  return shared().get_timestamp(subscriber(), time);
}

cupti::Result set_thread_id_type(std::uint32_t type) {
  std::size_t bytes = sizeof type;
  return shared().set_attribute(subscriber(), cupti::kThreadIdType, &bytes, &type);
}

// What is not replaced takes a subscriber already, or only asks.
cupti::Functions replaced(cupti::Functions f) noexcept {
  f.register_callbacks = register_callbacks;
  f.enable = enable;
  f.disable = disable;
  f.enable_and_dump = enable_and_dump;
  f.flush_all = flush_all;
  f.next_record = next_record;
  f.dropped_records = dropped_records;
  f.get_timestamp = get_timestamp;
  f.set_thread_id_type = set_thread_id_type;
  f.register_timestamp = nullptr;       // the others' times would be of our clock
  f.set_attribute = nullptr;            // whose buffers are cleared is not known to be ours to say
  f.enable_all_sync_records = nullptr;  // a subscriber has none of those unless it asks
  f.choose_unified_memory = nullptr;    // it takes no subscriber
  f.finalize = nullptr;
  return f;
}

}  // namespace

cupti::Result subscribe_beside(CuptiLibrary& library, const CuptiHooks& hooks,
                               cupti::Subscriber& subscriber, std::string& other) noexcept {
  if (!library.has_shared || library.version < cupti::kVersion13_3) return cupti::kOtherSubscriber;
  std::string first;
  const cupti::Result result = subscribe_as(library, hooks, true, subscriber, first);
  if (!first.empty()) other = first;
  if (result != cupti::kSuccess) return cupti::kOtherSubscriber;
  std::uint64_t time = 0;
  if (library.shared.get_timestamp(subscriber, &time) != cupti::kSuccess) {
    library.own.unsubscribe(subscriber);  // nothing that it records could be placed in time
    return cupti::kOtherSubscriber;
  }
  g_library.store(&library, std::memory_order_release);
  g_subscriber.store(subscriber, std::memory_order_release);
  library.functions = replaced(library.own);
  library.is_shared = true;
  return result;
}

bool are_graphs_whole(const CuptiLibrary& library, cupti::Subscriber subscriber) noexcept {
  std::uint8_t are_whole = 0;
  std::size_t bytes = sizeof are_whole;
  const cupti::Result result =
      library.shared.get_attribute(subscriber, cupti::kGraphsAreWhole, &bytes, &are_whole);
  return result == cupti::kSuccess && are_whole != 0;
}

}  // namespace warpline::agent
