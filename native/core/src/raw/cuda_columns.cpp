// The columns of the CUDA tables whose rows are no records, by name, in the types of the schema.
#include <algorithm>
#include <iterator>
#include <bit>

#include "raw/column.h"
#include "raw/cuda.h"

namespace warpline {

namespace {

const CudaTables &cuda(const RawTables &t) { return t.cuda; }

// Zero is how CUDA writes "none".
Maybe some(uint64_t value) { return {static_cast<int64_t>(value), value != 0}; }
Maybe when(bool is_there, uint64_t value) { return {static_cast<int64_t>(value), is_there}; }

const CudaDevice &device(const RawTables &t, std::size_t row) { return cuda(t).devices[row]; }
const CudaDeviceAttribute &attribute(const RawTables &t, std::size_t row) {
  return cuda(t).device_attributes[row];
}
const CudaContextRow &context(const RawTables &t, std::size_t row) { return cuda(t).contexts[row]; }
const CudaStreamRow &stream(const RawTables &t, std::size_t row) { return cuda(t).streams[row]; }
const Stack &stack(const RawTables &t, std::size_t row) { return cuda(t).chains.stacks[row]; }
const CodeFrame &frame(const RawTables &t, std::size_t row) { return cuda(t).chains.frames[row]; }
const CudaFacts &facts(const RawTables &t, std::size_t row) { return cuda(t).facts[row]; }
const auto &device_number(const RawTables &t, std::size_t row) {  // there are few
  return *std::next(cuda(t).device_rows.begin(), static_cast<std::ptrdiff_t>(row));
}

const Column kCudaColumns[] = {
    WL_COLUMN("stack/parent_id", int32_t, row_or_null(stack(t, row).parent)),
    WL_COLUMN("stack/frame_id", int32_t, known(stack(t, row).frame)),
    WL_COLUMN("stack/depth", int64_t, known(stack(t, row).depth)),

    WL_COLUMN("frame/symbol_id", int32_t, known(frame(t, row).symbol)),
    WL_COLUMN("frame/module_id", int32_t, known(frame(t, row).module)),
    WL_COLUMN("frame/file_id", int32_t, row_or_null(frame(t, row).file)),
    WL_COLUMN("frame/line", int64_t, (Maybe{frame(t, row).line, frame(t, row).line != 0})),
    WL_COLUMN("frame/kind", int32_t, known(static_cast<int64_t>(frame(t, row).kind))),
    WL_COLUMN("frame/is_unresolved", uint8_t, known(frame(t, row).is_unresolved)),
    WL_COLUMN("frame/address", int64_t,
              when(frame(t, row).kind == CodeKind::kNative, frame(t, row).address)),

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

    WL_COLUMN("device_attribute/device_id", int32_t, known(attribute(t, row).device)),
    WL_COLUMN("device_attribute/name_id", int32_t, known(attribute(t, row).name)),
    WL_COLUMN("device_attribute/value", int64_t,
              known(std::bit_cast<int64_t>(static_cast<double>(attribute(t, row).value)))),
    WL_COLUMN("device_attribute/integer", int64_t, known(attribute(t, row).value)),

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
    WL_COLUMN("cuda/missing_from_ns", int64_t, known(facts(t, row).missing_from_ns)),
    WL_COLUMN("cuda/last_buffer_ns", int64_t, known(facts(t, row).last_buffer_ns)),
    WL_COLUMN("device_number/process_id", int64_t, known(device_number(t, row).first.first)),
    WL_COLUMN("device_number/number", int64_t, known(device_number(t, row).first.second)),
    WL_COLUMN("device_number/device_id", int64_t, known(device_number(t, row).second)),
    WL_COLUMN("cuda_session/beyond_limits", int64_t, known(cuda(t).beyond_limits)),
    WL_COLUMN("cuda_session/failed_launches", int64_t, known(t.counters.failed_launches)),
    WL_COLUMN("cuda_session/lost_values", int64_t, known(t.counters.lost_values)),
};

}  // namespace

const Column *find_cuda_column(std::string_view name) {
  const Column *found = std::find_if(std::begin(kCudaColumns), std::end(kCudaColumns),
                                     [&](const Column &c) { return c.name == name; });
  return found == std::end(kCudaColumns) ? nullptr : found;
}

int64_t cuda_rows(const RawTables &tables, std::string_view table) {
  const CudaTables &t = tables.cuda;
  const auto is = [&](std::string_view name, std::size_t rows) {
    return table == name ? static_cast<int64_t>(rows) : -1;
  };
  return std::max({is("device", t.devices.size()),
                   is("device_attribute", t.device_attributes.size()), is("context", t.contexts.size()),
                   is("stream", t.streams.size()), is("stack", t.chains.stacks.size()),
                   is("frame", t.chains.frames.size()), is("cuda", t.facts.size()),
                   is("device_number", t.device_rows.size()),
                   is("cuda_session", 1)});
}

}  // namespace warpline
