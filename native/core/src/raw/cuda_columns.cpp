// The columns of the CUDA tables, by name, in the types of the schema.
#include <algorithm>

#include "raw/column.h"
#include "raw/cuda.h"

namespace warpline {

namespace {

const CudaTables &cuda(const RawTables &t) { return t.cuda; }
const CudaPlace &place(const RawTables &t, uint32_t number) { return cuda(t).places[number]; }

// Zero is how CUDA writes "none".
Maybe some(uint64_t value) { return {static_cast<int64_t>(value), value != 0}; }
Maybe unless_none(uint32_t value) { return {value, value != raw::kCudaNone}; }
Maybe when(bool is_there, uint64_t value) { return {static_cast<int64_t>(value), is_there}; }
Maybe whole(uint64_t value) { return {static_cast<int64_t>(value), true}; }

const CudaKernel &kernel(const RawTables &t, std::size_t row) { return cuda(t).kernels[row]; }
const CudaCopy &copy(const RawTables &t, std::size_t row) { return cuda(t).copies[row]; }
const CudaFill &fill(const RawTables &t, std::size_t row) { return cuda(t).fills[row]; }
const CudaGraphLaunch &graph(const RawTables &t, std::size_t row) { return cuda(t).graphs[row]; }
const CudaCall &call(const RawTables &t, std::size_t row) { return cuda(t).calls[row]; }
const CudaWait &host_wait(const RawTables &t, std::size_t row) { return cuda(t).host_waits[row]; }
const CudaWait &stream_wait(const RawTables &t, std::size_t row) {
  return cuda(t).stream_waits[row];
}
const CudaEvent &event(const RawTables &t, std::size_t row) { return cuda(t).events[row]; }
const CudaMemoryEvent &memory(const RawTables &t, std::size_t row) { return cuda(t).memory[row]; }
const CudaOverhead &overhead(const RawTables &t, std::size_t row) { return cuda(t).overhead[row]; }
const CudaDevice &device(const RawTables &t, std::size_t row) { return cuda(t).devices[row]; }
const CudaContextRow &context(const RawTables &t, std::size_t row) { return cuda(t).contexts[row]; }
const CudaStreamRow &stream(const RawTables &t, std::size_t row) { return cuda(t).streams[row]; }
const Stack &stack(const RawTables &t, std::size_t row) { return cuda(t).chains.stacks[row]; }
const CodeFrame &frame(const RawTables &t, std::size_t row) { return cuda(t).chains.frames[row]; }
const CudaFacts &facts(const RawTables &t, std::size_t row) { return cuda(t).facts[row]; }

const CudaKernelName &name(const RawTables &t, std::size_t row) {
  return cuda(t).names[static_cast<std::size_t>(kernel(t, row).name)];
}
const CudaCallName &call_name(const RawTables &t, std::size_t row) {
  return cuda(t).call_names[static_cast<std::size_t>(call(t, row).name)];
}

// CUDA's id of the green context that work ran in.
Maybe green(const RawTables &t, uint32_t number) {
  const CudaPlace &found = place(t, number);
  return when(found.is_green, found.context);
}

#define WL_SPAN(table, row_of)                                            \
  WL_COLUMN(table "/start_ns", int64_t, known(row_of(t, row).start_ns - origin)), \
      WL_COLUMN(table "/end_ns", int64_t, known(row_of(t, row).end_ns - origin))

#define WL_PLACE(table, row_of)                                                              \
  WL_COLUMN(table "/device_id", int32_t, known(place(t, row_of(t, row).place).device_row)),  \
      WL_COLUMN(table "/context_id", int32_t,                                                \
                row_or_null(place(t, row_of(t, row).place).context_row)),                    \
      WL_COLUMN(table "/stream_id", int32_t,                                                 \
                row_or_null(place(t, row_of(t, row).place).stream_row)),                     \
      WL_COLUMN(table "/process_id", int32_t, known(place(t, row_of(t, row).place).process)), \
      WL_COLUMN(table "/correlation_id", int64_t, some(row_of(t, row).correlation))

#define WL_WAIT(table, row_of)                                                  \
  WL_SPAN(table, row_of), WL_PLACE(table, row_of),                              \
      WL_COLUMN(table "/event_id", int64_t, unless_none(row_of(t, row).event)), \
      WL_COLUMN(table "/event_sync_id", int64_t, some(row_of(t, row).event_sync))

const Column kColumns[] = {
    WL_SPAN("kernel", kernel),
    WL_PLACE("kernel", kernel),
    WL_COLUMN("kernel/name_id", int32_t, known(name(t, row).full)),
    WL_COLUMN("kernel/short_name_id", int32_t, known(name(t, row).base)),
    WL_COLUMN("kernel/mangled_name_id", int32_t, row_or_null(name(t, row).mangled)),
    WL_COLUMN("kernel/grid_x", int64_t, known(kernel(t, row).grid[0])),
    WL_COLUMN("kernel/grid_y", int64_t, known(kernel(t, row).grid[1])),
    WL_COLUMN("kernel/grid_z", int64_t, known(kernel(t, row).grid[2])),
    WL_COLUMN("kernel/block_x", int64_t, known(kernel(t, row).block[0])),
    WL_COLUMN("kernel/block_y", int64_t, known(kernel(t, row).block[1])),
    WL_COLUMN("kernel/block_z", int64_t, known(kernel(t, row).block[2])),
    WL_COLUMN("kernel/cluster_x", int64_t, some(kernel(t, row).cluster[0])),
    WL_COLUMN("kernel/cluster_y", int64_t, some(kernel(t, row).cluster[1])),
    WL_COLUMN("kernel/cluster_z", int64_t, some(kernel(t, row).cluster[2])),
    WL_COLUMN("kernel/registers_per_thread", int64_t, known(kernel(t, row).registers)),
    WL_COLUMN("kernel/static_shared_bytes", int64_t, known(kernel(t, row).static_shared)),
    WL_COLUMN("kernel/dynamic_shared_bytes", int64_t, known(kernel(t, row).dynamic_shared)),
    WL_COLUMN("kernel/executed_shared_bytes", int64_t, known(kernel(t, row).executed_shared)),
    WL_COLUMN("kernel/local_per_thread_bytes", int64_t, known(kernel(t, row).local_per_thread)),
    WL_COLUMN("kernel/local_total_bytes", int64_t, whole(kernel(t, row).local_total)),
    WL_COLUMN("kernel/launch_kind", int32_t, known(kernel(t, row).launch_kind)),
    WL_COLUMN("kernel/graph_node_id", int64_t, some(kernel(t, row).graph_node)),
    WL_COLUMN("kernel/graph_id", int64_t, some(kernel(t, row).graph)),
    WL_COLUMN("kernel/green_context_id", int64_t, green(t, kernel(t, row).place)),

    WL_SPAN("memcpy", copy),
    WL_PLACE("memcpy", copy),
    WL_COLUMN("memcpy/bytes", int64_t, whole(copy(t, row).bytes)),
    WL_COLUMN("memcpy/kind", int32_t, known(copy(t, row).kind)),
    WL_COLUMN("memcpy/src_memory", int32_t, known(copy(t, row).source_memory)),
    WL_COLUMN("memcpy/dst_memory", int32_t, known(copy(t, row).destination_memory)),
    WL_COLUMN("memcpy/src_device_id", int32_t, row_or_null(copy(t, row).source)),
    WL_COLUMN("memcpy/dst_device_id", int32_t, row_or_null(copy(t, row).destination)),
    WL_COLUMN("memcpy/copy_count", int64_t, known(copy(t, row).count)),
    WL_COLUMN("memcpy/graph_node_id", int64_t, some(copy(t, row).graph_node)),
    WL_COLUMN("memcpy/green_context_id", int64_t, green(t, copy(t, row).place)),

    WL_SPAN("memset", fill),
    WL_PLACE("memset", fill),
    WL_COLUMN("memset/bytes", int64_t, whole(fill(t, row).bytes)),
    WL_COLUMN("memset/value", int64_t, known(fill(t, row).value)),
    WL_COLUMN("memset/memory", int32_t, known(fill(t, row).memory)),
    WL_COLUMN("memset/graph_node_id", int64_t, some(fill(t, row).graph_node)),
    WL_COLUMN("memset/green_context_id", int64_t, green(t, fill(t, row).place)),

    WL_SPAN("graph_launch", graph),
    WL_PLACE("graph_launch", graph),
    WL_COLUMN("graph_launch/level", int32_t, known(graph(t, row).nodes != 0)),
    WL_COLUMN("graph_launch/node_count", int64_t, known(graph(t, row).nodes)),
    WL_COLUMN("graph_launch/graph_id", int64_t, some(graph(t, row).graph)),
    WL_COLUMN("graph_launch/graph_exec_id", int64_t, some(graph(t, row).instance)),

    WL_SPAN("api_call", call),
    WL_COLUMN("api_call/process_id", int32_t, known(t.threads[call(t, row).thread].process)),
    WL_COLUMN("api_call/thread_id", int32_t, known(call(t, row).thread)),
    WL_COLUMN("api_call/correlation_id", int64_t, some(call(t, row).correlation)),
    WL_COLUMN("api_call/name_id", int32_t, known(call_name(t, row).text)),
    WL_COLUMN("api_call/api", int32_t, known(call_name(t, row).is_driver)),
    WL_COLUMN("api_call/return_value", int64_t, known(call(t, row).status)),
    WL_COLUMN("api_call/stack_id", int32_t,
              row_or_null(cuda(t).chains.stack_of(call(t, row).chain))),

    WL_COLUMN("stack/parent_id", int32_t, row_or_null(stack(t, row).parent)),
    WL_COLUMN("stack/frame_id", int32_t, known(stack(t, row).frame)),
    WL_COLUMN("stack/depth", int64_t, known(stack(t, row).depth)),

    WL_COLUMN("frame/symbol_id", int32_t, known(frame(t, row).symbol)),
    WL_COLUMN("frame/module_id", int32_t, known(frame(t, row).module)),
    WL_COLUMN("frame/kind", int32_t, known(1)),  // native code
    WL_COLUMN("frame/is_unresolved", uint8_t, known(frame(t, row).is_unresolved)),
    WL_COLUMN("frame/address", int64_t, whole(frame(t, row).address)),

    WL_WAIT("host_wait", host_wait),
    WL_COLUMN("host_wait/kind", int32_t, known(host_wait(t, row).kind)),
    WL_WAIT("stream_wait", stream_wait),

    WL_PLACE("event_record", event),
    WL_COLUMN("event_record/event_id", int64_t, known(event(t, row).event)),
    WL_COLUMN("event_record/event_sync_id", int64_t, some(event(t, row).event_sync)),
    WL_COLUMN("event_record/device_time_ns", int64_t,
              (Maybe{event(t, row).device_ns - origin, event(t, row).device_ns != 0})),

    WL_COLUMN("memory_event/time_ns", int64_t, known(memory(t, row).time_ns - origin)),
    WL_PLACE("memory_event", memory),
    WL_COLUMN("memory_event/operation", int32_t, known(memory(t, row).is_release)),
    WL_COLUMN("memory_event/memory", int32_t, known(memory(t, row).memory)),
    WL_COLUMN("memory_event/bytes", int64_t, whole(memory(t, row).bytes)),
    WL_COLUMN("memory_event/address", int64_t, whole(memory(t, row).address)),
    WL_COLUMN("memory_event/pool_address", int64_t,
              when(memory(t, row).has_pool, memory(t, row).pool)),
    WL_COLUMN("memory_event/name_id", int32_t, row_or_null(memory(t, row).name)),

    WL_SPAN("overhead", overhead),
    WL_COLUMN("overhead/thread_id", int32_t, row_or_null(overhead(t, row).thread)),
    WL_COLUMN("overhead/name_id", int32_t, known(overhead(t, row).name)),

    WL_COLUMN("device/gpu_index", int64_t, known(device(t, row).index)),
    WL_COLUMN("device/name_id", int32_t, row_or_null(device(t, row).name)),
    WL_COLUMN("device/uuid_id", int32_t, row_or_null(device(t, row).uuid)),
    WL_COLUMN("device/bus_id", int32_t, row_or_null(device(t, row).bus)),
    WL_COLUMN("device/sm_count", int64_t, some(device(t, row).facts.multiprocessors)),
    WL_COLUMN("device/memory_bytes", int64_t, some(device(t, row).facts.memory_bytes)),
    WL_COLUMN("device/memory_bytes_per_s", int64_t, some(device(t, row).facts.memory_bytes_per_s)),
    WL_COLUMN("device/l2_bytes", int64_t, some(device(t, row).facts.l2_bytes)),
    WL_COLUMN("device/clock_hz", int64_t, some(device(t, row).facts.clock_hz)),
    WL_COLUMN("device/compute_major", int64_t, some(device(t, row).facts.compute_major)),
    WL_COLUMN("device/compute_minor", int64_t,
              when(device(t, row).facts.compute_major != 0, device(t, row).facts.compute_minor)),

    WL_COLUMN("context/process_id", int32_t, known(context(t, row).process)),
    WL_COLUMN("context/device_id", int32_t, known(context(t, row).device)),
    WL_COLUMN("context/native_id", int64_t, known(context(t, row).native)),
    WL_COLUMN("context/is_green", uint8_t, known(context(t, row).is_green)),
    WL_COLUMN("context/parent_native_id", int64_t,
              when(context(t, row).is_green, context(t, row).parent)),

    WL_COLUMN("stream/process_id", int32_t, known(stream(t, row).process)),
    WL_COLUMN("stream/context_id", int32_t, known(stream(t, row).context)),
    WL_COLUMN("stream/native_id", int64_t, known(stream(t, row).native)),
    WL_COLUMN("stream/priority", int64_t,
              (Maybe{stream(t, row).facts.priority, stream(t, row).facts.has_priority})),
    WL_COLUMN("stream/kind", int32_t,
              (Maybe{stream(t, row).facts.kind, stream(t, row).facts.has_kind})),

    // Facts that become no column of the recording.
    WL_COLUMN("cuda/is_used", int64_t, known(facts(t, row).is_used)),
    WL_COLUMN("cuda/collected", int64_t, known(facts(t, row).collected)),
    WL_COLUMN("cuda/dropped", int64_t, known(facts(t, row).dropped)),
    WL_COLUMN("cuda/without_time", int64_t, known(facts(t, row).without_time)),
    WL_COLUMN("cuda/missing_kernels", int64_t, known(facts(t, row).missing_kernels)),
    WL_COLUMN("cuda/missing_graphs", int64_t, known(facts(t, row).missing_graphs)),
    WL_COLUMN("cuda/missing_copies", int64_t, known(facts(t, row).missing_copies)),
    WL_COLUMN("cuda/missing_fills", int64_t, known(facts(t, row).missing_fills)),
    WL_COLUMN("cuda/last_buffer_ns", int64_t, known(facts(t, row).last_buffer_ns)),
    WL_COLUMN("cuda_session/beyond_limits", int64_t, known(cuda(t).beyond_limits)),
};

}  // namespace

const Column *find_cuda_column(std::string_view name) {
  const Column *found = std::find_if(std::begin(kColumns), std::end(kColumns),
                                     [&](const Column &c) { return c.name == name; });
  return found == std::end(kColumns) ? nullptr : found;
}

int64_t cuda_rows(const RawTables &tables, std::string_view table) {
  const CudaTables &t = tables.cuda;
  const auto is = [&](std::string_view name, std::size_t rows) {
    return table == name ? static_cast<int64_t>(rows) : -1;
  };
  return std::max({is("kernel", t.kernels.size()), is("memcpy", t.copies.size()),
                   is("memset", t.fills.size()), is("graph_launch", t.graphs.size()),
                   is("api_call", t.calls.size()), is("host_wait", t.host_waits.size()),
                   is("stream_wait", t.stream_waits.size()), is("event_record", t.events.size()),
                   is("memory_event", t.memory.size()), is("overhead", t.overhead.size()), is("device", t.devices.size()),
                   is("context", t.contexts.size()), is("stream", t.streams.size()),
                   is("stack", t.chains.stacks.size()), is("frame", t.chains.frames.size()),
                   is("cuda", t.facts.size()), is("cuda_session", 1)});
}

}  // namespace warpline
