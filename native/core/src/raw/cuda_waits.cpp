// What calls say they concern, made into waits and event records.
//
// The calls of a process are gone through as they began. Each successful recording of an event is
// numbered; a wait names the last one of its event that began before it. Where that cannot be known
// the wait names none: recorded before recording began or while it rested, in another process, or
// by a graph. While a stream is captured nothing of this happens, it is only put into the graph: a
// capture spreads to the streams that wait for an event recorded in it, and gives no rows.
#include "raw/cuda_waits.h"

#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "raw/cuda.h"
#include "raw/order.h"
#include "raw/tables.h"

namespace warpline {

namespace {

// What the CUDA records say of contexts and their streams.
class KnownStreams {
 public:
  explicit KnownStreams(const CudaTables &cuda) : cuda_(cuda) {
    for (const auto &[key, stream] : cuda.declared_streams) {
      add(std::get<0>(key), std::get<1>(key), std::get<2>(key));
    }
    for (const auto &[key, context] : cuda.declared_contexts) {
      add(key.first, key.second, context.null_stream);
    }
    for (const auto &[key, place] : cuda.place_of) {
      add(std::get<0>(key), std::get<2>(key), std::get<3>(key));
    }
  }

  // Completes what a call said: its context was the one current in the thread, which is not always
  // that of the stream.
  void complete(CudaTarget &target) const {
    if (target.context == 0 || target.context == raw::kCudaNone) target.context = first_of(target);
    if (target.stream == raw::kCudaNullStream) {
      const auto context = cuda_.declared_contexts.find({target.process, target.context});
      const bool is_known = context != cuda_.declared_contexts.end();
      target.stream = is_known ? context->second.null_stream : raw::kCudaNone;
    }
    if (target.stream == raw::kCudaNone) return;
    const auto owner = owners_.find({target.process, target.stream});
    if (owner == owners_.end() || owner->second.count != 1) return;
    target.context = owner->second.context;
  }

 private:
  struct Owner {
    uint32_t context = 0;
    uint32_t count = 0;  // of contexts that have a stream of this number
  };

  void add(int32_t process, uint32_t context, uint32_t stream) {
    if (context == raw::kCudaNone || stream == raw::kCudaNone) return;
    Owner &owner = owners_[{process, stream}];
    if (owner.count != 0 && owner.context == context) return;
    owner = {context, owner.count + 1};
  }

  uint32_t first_of(const CudaTarget &target) const {
    const auto first = cuda_.declared_contexts.lower_bound({target.process, 0});
    const bool is_there =
        first != cuda_.declared_contexts.end() && first->first.first == target.process;
    return is_there ? first->first.second : raw::kCudaNone;
  }

  const CudaTables &cuda_;
  std::map<std::pair<int32_t, uint32_t>, Owner> owners_;
};

using Stream = std::pair<uint32_t, uint32_t>;  // context, stream

// Which streams of a process are being captured.
class StreamCaptures {
 public:
  void begin(const Stream &stream) { join(stream, ++captures_); }

  void end(const Stream &stream) {
    const auto members = members_.find(capture_of(stream));
    if (members == members_.end()) return;
    for (const Stream &member : members->second) streams_.erase(member);
    members_.erase(members);
  }

  void join(const Stream &stream, uint64_t capture) {
    if (streams_.try_emplace(stream, capture).second) members_[capture].push_back(stream);
  }

  // Returns the number of the capture that a stream is in, counted from 1; 0: none.
  uint64_t capture_of(const Stream &stream) const {
    const auto found = streams_.find(stream);
    return found == streams_.end() ? 0 : found->second;
  }

  bool is_open(uint64_t capture) const { return members_.contains(capture); }

 private:
  uint64_t captures_ = 0;
  std::map<Stream, uint64_t> streams_;
  std::map<uint64_t, std::vector<Stream>> members_;
};

// An event of a process, by its handle.
struct Event {
  uint32_t number = 0;
  uint64_t sync = 0;     // of its last recording, 0: not known
  uint32_t context = 0;  // in which that was
  uint64_t capture = 0;  // it was last recorded in this capture, 0: in none
};

// Goes through the calls of one process, in the order in which they began.
class Replay {
 public:
  Replay(RawRows &rows, const CudaFacts &facts) : rows_(rows), facts_(facts) {}

  void take(const CudaTarget &call) {
    forget_unseen(call.start_ns);
    const Stream stream{call.context, call.stream};
    switch (call.role) {
      case CudaRole::kNone: break;
      case CudaRole::kWaitForStream: add_host_wait(call, 3, nullptr); break;
      case CudaRole::kWaitForContext: add_host_wait(call, 4, nullptr); break;
      case CudaRole::kWaitForEvent: add_host_wait(call, 1, &event_of(call)); break;
      case CudaRole::kStreamWait: order(call, stream); break;
      case CudaRole::kEventRecord: record(call, stream); break;
      case CudaRole::kEventEnd: events_.erase(call.event); break;
      case CudaRole::kCaptureBegin: captures_.begin(stream); break;
      case CudaRole::kCaptureEnd: captures_.end(stream); break;
    }
  }

 private:
  // While calls were not recorded events may have been.
  void forget_unseen(int64_t time_ns) {
    bool is_unseen = false;
    for (; seen_ < facts_.collecting.size() && facts_.collecting[seen_].first <= time_ns; ++seen_) {
      is_unseen = is_unseen || (facts_.collecting[seen_].second & raw::kCollectsTargets) == 0;
    }
    if (!is_unseen) return;
    captures_ = StreamCaptures();
    for (auto &[handle, event] : events_) event = {event.number, 0, 0, 0};
  }

  Event &event_of(const CudaTarget &call) {
    const auto [found, is_new] = events_.try_emplace(call.event);
    if (is_new) found->second.number = ++event_numbers_;
    return found->second;
  }

  template <typename Row>
  static Row wait_of(const CudaTarget &call, const Event *event) {
    Row wait;
    wait.start_ns = call.start_ns;
    wait.end_ns = call.end_ns;
    wait.process = call.process;
    wait.context = call.context;
    wait.stream = call.stream;
    wait.correlation = call.correlation;
    wait.event = event == nullptr ? raw::kCudaNone : event->number;
    wait.event_sync = event == nullptr ? 0 : event->sync;
    return wait;
  }

  void add_host_wait(const CudaTarget &call, uint8_t kind, const Event *event) {
    auto wait = wait_of<HostWaitRow>(call, event);
    wait.wait_kind = kind;
    if (event != nullptr && event->sync != 0) wait.context = event->context;
    rows_.of<HostWaitRow>().push_back(wait);
  }

  void order(const CudaTarget &call, const Stream &stream) {
    const Event &event = event_of(call);
    if (captures_.is_open(event.capture)) {
      captures_.join(stream, event.capture);
    } else if (captures_.capture_of(stream) == 0) {
      rows_.of<StreamWaitRow>().push_back(wait_of<StreamWaitRow>(call, &event));
    }
  }

  void record(const CudaTarget &call, const Stream &stream) {
    Event &event = event_of(call);
    event.capture = captures_.capture_of(stream);
    event.sync = event.capture == 0 ? ++recordings_ : 0;
    event.context = call.context;
    if (event.capture != 0) return;
    EventRecordRow row;
    row.process = call.process;
    row.device = raw::kCudaNone;
    row.context = call.context;
    row.stream = call.stream == raw::kCudaNone ? 0 : call.stream;
    row.correlation = call.correlation;
    row.event = event.number;
    row.event_sync = event.sync;
    rows_.of<EventRecordRow>().push_back(row);
  }

  RawRows &rows_;
  const CudaFacts &facts_;
  std::size_t seen_ = 0;  // of when what was recorded
  uint32_t event_numbers_ = 0;
  uint64_t recordings_ = 0;
  StreamCaptures captures_;
  std::unordered_map<uint64_t, Event> events_;
};

}  // namespace

void derive_waits(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  Growing<CudaTarget> targets = std::move(cuda.targets);
  if (targets.empty()) return;
  const KnownStreams known(cuda);
  for (CudaTarget &target : targets) known.complete(target);
  sort_rows(targets, [](const CudaTarget &t) { return t.start_ns; },
            [](const CudaTarget &t) { return std::tuple(t.end_ns, t.process, t.correlation); });
  std::map<int32_t, Replay> replays;
  for (const CudaTarget &target : targets) {
    auto found = replays.find(target.process);
    if (found == replays.end()) {
      found = replays.try_emplace(target.process, tables.rows, cuda.facts_of(target.process)).first;
    }
    found->second.take(target);
  }
}

}  // namespace warpline
