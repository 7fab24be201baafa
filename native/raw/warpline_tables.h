// The tables of a raw session.
// Generated from native/raw/records.toml by `python native/raw/generate`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "warpline_records.h"

namespace warpline {

// Whose a row is.
enum class RowOf : std::uint8_t { kProcess, kThread, kPlace };

// In a row `take` copies what it has of its record; `text_of` returns the text of a CudaName
// record's number. In ColumnsOf a row, `visit` calls visitor(name, a function of a row) for every
// column, visitor.shared instead where that needs only what rows of AlikeRows share, and
// visitor.constant(name, text); `first` and `others` are what rows are sorted by. The functions
// that make a column are those of raw/conversions.h.
template <typename Row>
struct ColumnsOf;

// A row of api_call, made of a Call record.
struct ApiCallRow {
  using Record = raw::Call;
  static constexpr std::size_t kNumber = 0;
  static constexpr std::string_view kTable = "api_call";
  static constexpr RowOf kOwner = RowOf::kThread;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = true;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t thread = 0;
  std::int32_t call_name = -1;
  std::uint32_t chain_number = 0;
  std::uint32_t correlation = 0;
  std::uint32_t status = 0;
  std::uint8_t flags = 0;
  std::uint8_t unused[3] = {};  // no gap: compared by bytes

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    correlation = static_cast<std::uint32_t>(record.correlation);
    status = static_cast<std::uint32_t>(record.status);
    flags = static_cast<std::uint8_t>(record.flags);
  }
};

template <>
struct ColumnsOf<ApiCallRow> {
  static void visit(const auto &visitor) {
    visitor.shared("process_id", [](const auto &in, const ApiCallRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor.shared("thread_id", [](const auto &in, const ApiCallRow &row) {
      return row_id(in, row.thread);
    });
    visitor("start_ns", [](const auto &in, const ApiCallRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const ApiCallRow &row) {
      return time(in, row.end_ns);
    });
    visitor("correlation_id", [](const auto &in, const ApiCallRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor.shared("name_id", [](const auto &in, const ApiCallRow &row) {
      return call_text(in, row.call_name);
    });
    visitor.shared("api", [](const auto &in, const ApiCallRow &row) {
      return call_api(in, row.call_name);
    });
    visitor.shared("return_value", [](const auto &in, const ApiCallRow &row) {
      return signed_number(in, row.status);
    });
    visitor.shared("stack_id", [](const auto &in, const ApiCallRow &row) {
      return stack_of(in, row.chain_number);
    });
  }
  static auto first(const auto &in, const ApiCallRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const ApiCallRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      row_id(in, row.thread).value,
                      number_or_null(in, row.correlation).value);
  }
};

// A row of kernel, made of a Kernel record.
struct KernelRow {
  using Record = raw::Kernel;
  static constexpr std::size_t kNumber = 1;
  static constexpr std::string_view kTable = "kernel";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = true;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t local_bytes = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t place = 0;
  std::int32_t name = -1;
  std::uint32_t correlation = 0;
  std::uint32_t grid_x = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t executed_shared_bytes = 0;
  std::uint32_t local_bytes_per_thread = 0;
  std::uint32_t graph = 0;
  std::uint16_t grid_y = 0;
  std::uint16_t grid_z = 0;
  std::uint16_t block_x = 0;
  std::uint16_t block_y = 0;
  std::uint16_t block_z = 0;
  std::uint16_t registers = 0;
  std::uint16_t cluster_x = 0;
  std::uint16_t cluster_y = 0;
  std::uint16_t cluster_z = 0;
  std::uint8_t flags = 0;
  std::uint8_t unused[1] = {};  // no gap: compared by bytes

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    name = text_of(record.name);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    correlation = static_cast<std::uint32_t>(record.correlation);
    grid_x = static_cast<std::uint32_t>(record.grid_x);
    grid_y = static_cast<std::uint16_t>(record.grid_y);
    grid_z = static_cast<std::uint16_t>(record.grid_z);
    block_x = static_cast<std::uint16_t>(record.block_x);
    block_y = static_cast<std::uint16_t>(record.block_y);
    block_z = static_cast<std::uint16_t>(record.block_z);
    registers = static_cast<std::uint16_t>(record.registers);
    static_shared_bytes = static_cast<std::uint32_t>(record.static_shared_bytes);
    dynamic_shared_bytes = static_cast<std::uint32_t>(record.dynamic_shared_bytes);
    executed_shared_bytes = static_cast<std::uint32_t>(record.executed_shared_bytes);
    local_bytes_per_thread = static_cast<std::uint32_t>(record.local_bytes_per_thread);
    local_bytes = static_cast<std::uint64_t>(record.local_bytes);
    graph_node = static_cast<std::uint64_t>(record.graph_node);
    graph = static_cast<std::uint32_t>(record.graph);
    cluster_x = static_cast<std::uint16_t>(record.cluster_x);
    cluster_y = static_cast<std::uint16_t>(record.cluster_y);
    cluster_z = static_cast<std::uint16_t>(record.cluster_z);
    flags = static_cast<std::uint8_t>(record.flags);
  }
};

template <>
struct ColumnsOf<KernelRow> {
  static void visit(const auto &visitor) {
    visitor.shared("device_id", [](const auto &in, const KernelRow &row) {
      return device_of(in, row.place);
    });
    visitor.shared("context_id", [](const auto &in, const KernelRow &row) {
      return context_of(in, row.place);
    });
    visitor.shared("stream_id", [](const auto &in, const KernelRow &row) {
      return stream_of(in, row.place);
    });
    visitor.shared("process_id", [](const auto &in, const KernelRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("start_ns", [](const auto &in, const KernelRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const KernelRow &row) {
      return time(in, row.end_ns);
    });
    visitor("correlation_id", [](const auto &in, const KernelRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor.shared("name_id", [](const auto &in, const KernelRow &row) {
      return kernel_name(in, row.name);
    });
    visitor.shared("short_name_id", [](const auto &in, const KernelRow &row) {
      return kernel_short_name(in, row.name);
    });
    visitor.shared("mangled_name_id", [](const auto &in, const KernelRow &row) {
      return kernel_mangled_name(in, row.name);
    });
    visitor.shared("grid_x", [](const auto &in, const KernelRow &row) {
      return number(in, row.grid_x);
    });
    visitor.shared("grid_y", [](const auto &in, const KernelRow &row) {
      return number(in, row.grid_y);
    });
    visitor.shared("grid_z", [](const auto &in, const KernelRow &row) {
      return number(in, row.grid_z);
    });
    visitor.shared("block_x", [](const auto &in, const KernelRow &row) {
      return number(in, row.block_x);
    });
    visitor.shared("block_y", [](const auto &in, const KernelRow &row) {
      return number(in, row.block_y);
    });
    visitor.shared("block_z", [](const auto &in, const KernelRow &row) {
      return number(in, row.block_z);
    });
    visitor.shared("cluster_x", [](const auto &in, const KernelRow &row) {
      return number_or_null(in, row.cluster_x);
    });
    visitor.shared("cluster_y", [](const auto &in, const KernelRow &row) {
      return number_or_null(in, row.cluster_y);
    });
    visitor.shared("cluster_z", [](const auto &in, const KernelRow &row) {
      return number_or_null(in, row.cluster_z);
    });
    visitor.shared("registers_per_thread", [](const auto &in, const KernelRow &row) {
      return number(in, row.registers);
    });
    visitor.shared("static_shared_bytes", [](const auto &in, const KernelRow &row) {
      return number(in, row.static_shared_bytes);
    });
    visitor.shared("dynamic_shared_bytes", [](const auto &in, const KernelRow &row) {
      return number(in, row.dynamic_shared_bytes);
    });
    visitor.shared("executed_shared_bytes", [](const auto &in, const KernelRow &row) {
      return number(in, row.executed_shared_bytes);
    });
    visitor.shared("local_per_thread_bytes", [](const auto &in, const KernelRow &row) {
      return number(in, row.local_bytes_per_thread);
    });
    visitor.shared("local_total_bytes", [](const auto &in, const KernelRow &row) {
      return number(in, row.local_bytes);
    });
    visitor.shared("launch_kind", [](const auto &in, const KernelRow &row) {
      return launch_kind(in, row.has(raw::Kernel::kIsCooperative), row.has(raw::Kernel::kIsCooperativeMulti));
    });
    visitor.shared("graph_node_id", [](const auto &in, const KernelRow &row) {
      return number_or_null(in, row.graph_node);
    });
    visitor.shared("graph_id", [](const auto &in, const KernelRow &row) {
      return number_or_null(in, row.graph);
    });
    visitor.shared("green_context_id", [](const auto &in, const KernelRow &row) {
      return green_context_of(in, row.place);
    });
  }
  static auto first(const auto &in, const KernelRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const KernelRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      device_of(in, row.place).value,
                      stream_of(in, row.place).value,
                      number_or_null(in, row.correlation).value);
  }
};

// A row of memcpy, made of a Copy record.
struct MemcpyRow {
  using Record = raw::Copy;
  static constexpr std::size_t kNumber = 2;
  static constexpr std::string_view kTable = "memcpy";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = true;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t graph_node = 0;
  std::uint64_t copies = 0;
  std::uint64_t virtual_address = 0;
  std::uint32_t place = 0;
  std::uint32_t correlation = 0;
  std::uint32_t graph = 0;
  std::uint32_t source_device = 0;
  std::uint32_t destination_device = 0;
  std::uint32_t cause = 0;
  std::uint8_t copy_kind = 0;
  std::uint8_t source_memory = 0;
  std::uint8_t destination_memory = 0;
  std::uint8_t flags = 0;
  std::uint8_t unused[4] = {};  // no gap: compared by bytes

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    copy_kind = static_cast<std::uint8_t>(record.copy_kind);
    source_memory = static_cast<std::uint8_t>(record.source_memory);
    destination_memory = static_cast<std::uint8_t>(record.destination_memory);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    correlation = static_cast<std::uint32_t>(record.correlation);
    bytes = static_cast<std::uint64_t>(record.bytes);
    graph_node = static_cast<std::uint64_t>(record.graph_node);
    graph = static_cast<std::uint32_t>(record.graph);
    source_device = static_cast<std::uint32_t>(record.source_device);
    destination_device = static_cast<std::uint32_t>(record.destination_device);
    copies = static_cast<std::uint64_t>(record.copies);
    virtual_address = static_cast<std::uint64_t>(record.virtual_address);
    cause = static_cast<std::uint32_t>(record.cause);
    flags = static_cast<std::uint8_t>(record.flags);
  }
};

template <>
struct ColumnsOf<MemcpyRow> {
  static void visit(const auto &visitor) {
    visitor.shared("device_id", [](const auto &in, const MemcpyRow &row) {
      return device_of(in, row.place);
    });
    visitor.shared("context_id", [](const auto &in, const MemcpyRow &row) {
      return context_of(in, row.place);
    });
    visitor.shared("stream_id", [](const auto &in, const MemcpyRow &row) {
      return stream_of(in, row.place);
    });
    visitor.shared("process_id", [](const auto &in, const MemcpyRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("start_ns", [](const auto &in, const MemcpyRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const MemcpyRow &row) {
      return time(in, row.end_ns);
    });
    visitor("correlation_id", [](const auto &in, const MemcpyRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor.shared("bytes", [](const auto &in, const MemcpyRow &row) {
      return number(in, row.bytes);
    });
    visitor.shared("kind", [](const auto &in, const MemcpyRow &row) {
      return copy_kind(in, row.copy_kind);
    });
    visitor.shared("src_memory", [](const auto &in, const MemcpyRow &row) {
      return memory_kind(in, row.source_memory);
    });
    visitor.shared("dst_memory", [](const auto &in, const MemcpyRow &row) {
      return memory_kind(in, row.destination_memory);
    });
    visitor.shared("src_device_id", [](const auto &in, const MemcpyRow &row) {
      return peer_device(in, row.has(raw::Copy::kHasPeer), row.place, row.source_device);
    });
    visitor.shared("dst_device_id", [](const auto &in, const MemcpyRow &row) {
      return peer_device(in, row.has(raw::Copy::kHasPeer), row.place, row.destination_device);
    });
    visitor.shared("copy_count", [](const auto &in, const MemcpyRow &row) {
      return copy_count(in, row.has(raw::Copy::kHasCount), row.copies);
    });
    visitor.shared("migration_cause", [](const auto &in, const MemcpyRow &row) {
      return migration_cause(in, row.has(raw::Copy::kIsMigration), row.cause);
    });
    visitor.shared("virtual_address", [](const auto &in, const MemcpyRow &row) {
      return number_if(in, row.has(raw::Copy::kIsMigration), row.virtual_address);
    });
    visitor.shared("graph_node_id", [](const auto &in, const MemcpyRow &row) {
      return number_or_null(in, row.graph_node);
    });
    visitor.shared("green_context_id", [](const auto &in, const MemcpyRow &row) {
      return green_context_of(in, row.place);
    });
  }
  static auto first(const auto &in, const MemcpyRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const MemcpyRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      device_of(in, row.place).value,
                      stream_of(in, row.place).value,
                      number_or_null(in, row.correlation).value);
  }
};

// A row of memset, made of a Fill record.
struct MemsetRow {
  using Record = raw::Fill;
  static constexpr std::size_t kNumber = 3;
  static constexpr std::string_view kTable = "memset";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = true;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t place = 0;
  std::uint32_t value = 0;
  std::uint32_t correlation = 0;
  std::uint32_t memory = 0;
  std::uint32_t graph = 0;
  std::uint8_t unused[4] = {};  // no gap: compared by bytes

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    value = static_cast<std::uint32_t>(record.value);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    correlation = static_cast<std::uint32_t>(record.correlation);
    bytes = static_cast<std::uint64_t>(record.bytes);
    memory = static_cast<std::uint32_t>(record.memory);
    graph_node = static_cast<std::uint64_t>(record.graph_node);
    graph = static_cast<std::uint32_t>(record.graph);
  }
};

template <>
struct ColumnsOf<MemsetRow> {
  static void visit(const auto &visitor) {
    visitor.shared("device_id", [](const auto &in, const MemsetRow &row) {
      return device_of(in, row.place);
    });
    visitor.shared("context_id", [](const auto &in, const MemsetRow &row) {
      return context_of(in, row.place);
    });
    visitor.shared("stream_id", [](const auto &in, const MemsetRow &row) {
      return stream_of(in, row.place);
    });
    visitor.shared("process_id", [](const auto &in, const MemsetRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("start_ns", [](const auto &in, const MemsetRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const MemsetRow &row) {
      return time(in, row.end_ns);
    });
    visitor("correlation_id", [](const auto &in, const MemsetRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor.shared("bytes", [](const auto &in, const MemsetRow &row) {
      return number(in, row.bytes);
    });
    visitor.shared("value", [](const auto &in, const MemsetRow &row) {
      return number(in, row.value);
    });
    visitor.shared("memory", [](const auto &in, const MemsetRow &row) {
      return memory_kind(in, row.memory);
    });
    visitor.shared("graph_node_id", [](const auto &in, const MemsetRow &row) {
      return number_or_null(in, row.graph_node);
    });
    visitor.shared("green_context_id", [](const auto &in, const MemsetRow &row) {
      return green_context_of(in, row.place);
    });
  }
  static auto first(const auto &in, const MemsetRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const MemsetRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      device_of(in, row.place).value,
                      stream_of(in, row.place).value,
                      number_or_null(in, row.correlation).value);
  }
};

// A row of graph_launch, made of a Graph record.
struct GraphLaunchRow {
  using Record = raw::Graph;
  static constexpr std::size_t kNumber = 4;
  static constexpr std::string_view kTable = "graph_launch";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = false;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t place = 0;
  std::uint32_t nodes = 0;
  std::uint32_t source_graph = 0;
  std::uint32_t graph = 0;
  std::uint32_t correlation = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    graph = static_cast<std::uint32_t>(record.graph);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    correlation = static_cast<std::uint32_t>(record.correlation);
  }
};

template <>
struct ColumnsOf<GraphLaunchRow> {
  static void visit(const auto &visitor) {
    visitor("device_id", [](const auto &in, const GraphLaunchRow &row) {
      return device_of(in, row.place);
    });
    visitor("context_id", [](const auto &in, const GraphLaunchRow &row) {
      return context_of(in, row.place);
    });
    visitor("stream_id", [](const auto &in, const GraphLaunchRow &row) {
      return stream_of(in, row.place);
    });
    visitor("process_id", [](const auto &in, const GraphLaunchRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("start_ns", [](const auto &in, const GraphLaunchRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const GraphLaunchRow &row) {
      return time(in, row.end_ns);
    });
    visitor("correlation_id", [](const auto &in, const GraphLaunchRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor("level", [](const auto &in, const GraphLaunchRow &row) {
      return graph_level(in, row.nodes);
    });
    visitor("node_count", [](const auto &in, const GraphLaunchRow &row) {
      return number(in, row.nodes);
    });
    visitor("graph_id", [](const auto &in, const GraphLaunchRow &row) {
      return number_or_null(in, row.source_graph);
    });
    visitor("graph_exec_id", [](const auto &in, const GraphLaunchRow &row) {
      return number_or_null(in, row.graph);
    });
  }
  static auto first(const auto &in, const GraphLaunchRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const GraphLaunchRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      device_of(in, row.place).value,
                      stream_of(in, row.place).value,
                      number_or_null(in, row.correlation).value);
  }
};

// A row of host_wait, made of a Wait record.
struct HostWaitRow {
  using Record = raw::Wait;
  static constexpr std::size_t kNumber = 5;
  static constexpr std::string_view kTable = "host_wait";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = false;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t event_sync = 0;
  std::uint32_t place = 0;
  std::int32_t process = -1;
  std::uint32_t wait_kind = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint32_t event = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    wait_kind = static_cast<std::uint32_t>(record.wait_kind);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    context = static_cast<std::uint32_t>(record.context);
    stream = static_cast<std::uint32_t>(record.stream);
    correlation = static_cast<std::uint32_t>(record.correlation);
    event = static_cast<std::uint32_t>(record.event);
    event_sync = static_cast<std::uint64_t>(record.event_sync);
  }
};

template <>
struct ColumnsOf<HostWaitRow> {
  static void visit(const auto &visitor) {
    visitor("device_id", [](const auto &in, const HostWaitRow &row) {
      return device_of(in, row.place);
    });
    visitor("context_id", [](const auto &in, const HostWaitRow &row) {
      return context_of(in, row.place);
    });
    visitor("stream_id", [](const auto &in, const HostWaitRow &row) {
      return stream_of(in, row.place);
    });
    visitor("process_id", [](const auto &in, const HostWaitRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("kind", [](const auto &in, const HostWaitRow &row) {
      return label(in, row.wait_kind);
    });
    visitor("start_ns", [](const auto &in, const HostWaitRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const HostWaitRow &row) {
      return time(in, row.end_ns);
    });
    visitor("correlation_id", [](const auto &in, const HostWaitRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor("event_id", [](const auto &in, const HostWaitRow &row) {
      return event_or_null(in, row.event);
    });
    visitor("event_sync_id", [](const auto &in, const HostWaitRow &row) {
      return number_or_null(in, row.event_sync);
    });
  }
  static auto first(const auto &in, const HostWaitRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const HostWaitRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      process_of_place(in, row.place).value,
                      number_or_null(in, row.correlation).value);
  }
};

// A row of stream_wait, made of a Wait record.
struct StreamWaitRow {
  using Record = raw::Wait;
  static constexpr std::size_t kNumber = 6;
  static constexpr std::string_view kTable = "stream_wait";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = false;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t event_sync = 0;
  std::uint32_t place = 0;
  std::int32_t process = -1;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint32_t event = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    context = static_cast<std::uint32_t>(record.context);
    stream = static_cast<std::uint32_t>(record.stream);
    correlation = static_cast<std::uint32_t>(record.correlation);
    event = static_cast<std::uint32_t>(record.event);
    event_sync = static_cast<std::uint64_t>(record.event_sync);
  }
};

template <>
struct ColumnsOf<StreamWaitRow> {
  static void visit(const auto &visitor) {
    visitor("device_id", [](const auto &in, const StreamWaitRow &row) {
      return device_of(in, row.place);
    });
    visitor("context_id", [](const auto &in, const StreamWaitRow &row) {
      return context_of(in, row.place);
    });
    visitor("stream_id", [](const auto &in, const StreamWaitRow &row) {
      return stream_of(in, row.place);
    });
    visitor("process_id", [](const auto &in, const StreamWaitRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("start_ns", [](const auto &in, const StreamWaitRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const StreamWaitRow &row) {
      return time(in, row.end_ns);
    });
    visitor("correlation_id", [](const auto &in, const StreamWaitRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor("event_id", [](const auto &in, const StreamWaitRow &row) {
      return event_or_null(in, row.event);
    });
    visitor("event_sync_id", [](const auto &in, const StreamWaitRow &row) {
      return number_or_null(in, row.event_sync);
    });
  }
  static auto first(const auto &in, const StreamWaitRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const StreamWaitRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      process_of_place(in, row.place).value,
                      number_or_null(in, row.correlation).value);
  }
};

// A row of event_record, made of a Event record.
struct EventRecordRow {
  using Record = raw::Event;
  static constexpr std::size_t kNumber = 7;
  static constexpr std::string_view kTable = "event_record";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = false;

  std::uint64_t event_sync = 0;
  std::int64_t device_time_ns = 0;
  std::uint32_t place = 0;
  std::int32_t process = -1;
  std::uint32_t event = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint32_t device = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    event = static_cast<std::uint32_t>(record.event);
    context = static_cast<std::uint32_t>(record.context);
    stream = static_cast<std::uint32_t>(record.stream);
    correlation = static_cast<std::uint32_t>(record.correlation);
    device = static_cast<std::uint32_t>(record.device);
    event_sync = static_cast<std::uint64_t>(record.event_sync);
    device_time_ns = static_cast<std::int64_t>(record.device_time_ns);
  }
};

template <>
struct ColumnsOf<EventRecordRow> {
  static void visit(const auto &visitor) {
    visitor("device_id", [](const auto &in, const EventRecordRow &row) {
      return device_of(in, row.place);
    });
    visitor("context_id", [](const auto &in, const EventRecordRow &row) {
      return context_of(in, row.place);
    });
    visitor("stream_id", [](const auto &in, const EventRecordRow &row) {
      return stream_of(in, row.place);
    });
    visitor("process_id", [](const auto &in, const EventRecordRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("correlation_id", [](const auto &in, const EventRecordRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor("event_id", [](const auto &in, const EventRecordRow &row) {
      return number(in, row.event);
    });
    visitor("event_sync_id", [](const auto &in, const EventRecordRow &row) {
      return number_or_null(in, row.event_sync);
    });
    visitor("device_time_ns", [](const auto &in, const EventRecordRow &row) {
      return time_or_null(in, row.device_time_ns);
    });
  }
  static auto first(const auto &in, const EventRecordRow &row) {
    return process_of_place(in, row.place).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const EventRecordRow &row) {
    return std::tuple(number_or_null(in, row.correlation).value,
                      number_or_null(in, row.event_sync).value);
  }
};

// A row of memory_event, made of a Memory record.
struct MemoryEventRow {
  using Record = raw::Memory;
  static constexpr std::size_t kNumber = 8;
  static constexpr std::string_view kTable = "memory_event";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = false;

  std::int64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pool_address = 0;
  std::uint32_t place = 0;
  std::uint32_t correlation = 0;
  std::int32_t name = -1;
  std::uint8_t operation = 0;
  std::uint8_t memory = 0;
  std::uint8_t flags = 0;

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    operation = static_cast<std::uint8_t>(record.operation);
    memory = static_cast<std::uint8_t>(record.memory);
    time_ns = static_cast<std::int64_t>(record.time_ns);
    correlation = static_cast<std::uint32_t>(record.correlation);
    address = static_cast<std::uint64_t>(record.address);
    bytes = static_cast<std::uint64_t>(record.bytes);
    pool_address = static_cast<std::uint64_t>(record.pool_address);
    name = text_of(record.name);
    flags = static_cast<std::uint8_t>(record.flags);
  }
};

template <>
struct ColumnsOf<MemoryEventRow> {
  static void visit(const auto &visitor) {
    visitor("device_id", [](const auto &in, const MemoryEventRow &row) {
      return device_of(in, row.place);
    });
    visitor("context_id", [](const auto &in, const MemoryEventRow &row) {
      return context_of(in, row.place);
    });
    visitor("stream_id", [](const auto &in, const MemoryEventRow &row) {
      return stream_of(in, row.place);
    });
    visitor("process_id", [](const auto &in, const MemoryEventRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("time_ns", [](const auto &in, const MemoryEventRow &row) {
      return time(in, row.time_ns);
    });
    visitor("correlation_id", [](const auto &in, const MemoryEventRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor("operation", [](const auto &in, const MemoryEventRow &row) {
      return is_release(in, row.operation);
    });
    visitor("memory", [](const auto &in, const MemoryEventRow &row) {
      return memory_kind(in, row.memory);
    });
    visitor("bytes", [](const auto &in, const MemoryEventRow &row) {
      return number(in, row.bytes);
    });
    visitor("address", [](const auto &in, const MemoryEventRow &row) {
      return number(in, row.address);
    });
    visitor("pool_address", [](const auto &in, const MemoryEventRow &row) {
      return number_if(in, row.has(raw::Memory::kHasPool), row.pool_address);
    });
    visitor("name_id", [](const auto &in, const MemoryEventRow &row) {
      return text(in, row.name);
    });
  }
  static auto first(const auto &in, const MemoryEventRow &row) {
    return time(in, row.time_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const MemoryEventRow &row) {
    return std::tuple(process_of_place(in, row.place).value,
                      number(in, row.address).value,
                      is_release(in, row.operation).value);
  }
};

// A row of overhead, made of a Overhead record.
struct OverheadRow {
  using Record = raw::Overhead;
  static constexpr std::size_t kNumber = 9;
  static constexpr std::string_view kTable = "overhead";
  static constexpr RowOf kOwner = RowOf::kProcess;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = false;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int32_t process = 0;
  std::int32_t name = -1;
  std::uint32_t overhead_kind = 0;
  std::uint32_t object_kind = 0;
  std::uint32_t object_id = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    overhead_kind = static_cast<std::uint32_t>(record.overhead_kind);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    object_kind = static_cast<std::uint32_t>(record.object_kind);
    object_id = static_cast<std::uint32_t>(record.object_id);
  }
};

template <>
struct ColumnsOf<OverheadRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const OverheadRow &row) {
      return row_id(in, row.process);
    });
    visitor("start_ns", [](const auto &in, const OverheadRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const OverheadRow &row) {
      return time(in, row.end_ns);
    });
    visitor("thread_id", [](const auto &in, const OverheadRow &row) {
      return thread_of(in, row.process, row.object_kind, row.object_id);
    });
    visitor("name_id", [](const auto &in, const OverheadRow &row) {
      return text(in, row.name);
    });
  }
  static auto first(const auto &in, const OverheadRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const OverheadRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      thread_of(in, row.process, row.object_kind, row.object_id).value);
  }
};

// A row of graph_node, made of a GraphNode record.
struct GraphNodeRow {
  using Record = raw::GraphNode;
  static constexpr std::size_t kNumber = 10;
  static constexpr std::string_view kTable = "graph_node";
  static constexpr RowOf kOwner = RowOf::kThread;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::int64_t time_ns = 0;
  std::uint64_t graph_node_id = 0;
  std::uint64_t original_graph_node_id = 0;
  std::uint32_t thread = 0;
  std::uint32_t node_type = 0;
  std::uint32_t graph = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    node_type = static_cast<std::uint32_t>(record.node_type);
    time_ns = static_cast<std::int64_t>(record.time_ns);
    graph_node_id = static_cast<std::uint64_t>(record.graph_node_id);
    original_graph_node_id = static_cast<std::uint64_t>(record.original_graph_node_id);
    graph = static_cast<std::uint32_t>(record.graph);
  }
};

template <>
struct ColumnsOf<GraphNodeRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const GraphNodeRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("thread_id", [](const auto &in, const GraphNodeRow &row) {
      return row_id(in, row.thread);
    });
    visitor("node_type", [](const auto &in, const GraphNodeRow &row) {
      return number(in, row.node_type);
    });
    visitor("time_ns", [](const auto &in, const GraphNodeRow &row) {
      return time(in, row.time_ns);
    });
    visitor("graph_node_id", [](const auto &in, const GraphNodeRow &row) {
      return number(in, row.graph_node_id);
    });
    visitor("original_graph_node_id", [](const auto &in, const GraphNodeRow &row) {
      return number_or_null(in, row.original_graph_node_id);
    });
    visitor("graph", [](const auto &in, const GraphNodeRow &row) {
      return number(in, row.graph);
    });
    visitor.constant("name_id", "Graph Node Creation");
  }
  static auto first(const auto &in, const GraphNodeRow &row) {
    return time(in, row.time_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const GraphNodeRow &row) {
    return std::tuple(number(in, row.graph_node_id).value);
  }
};

// A row of profiled_kernel, made of a CountedKernel record.
struct ProfiledKernelRow {
  using Record = raw::CountedKernel;
  static constexpr std::size_t kNumber = 11;
  static constexpr std::string_view kTable = "profiled_kernel";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t kernels = 0;
  std::uint32_t place = 0;
  std::uint32_t thread = 0;
  std::int32_t nvtx = -1;
  std::uint32_t lowest_mhz = 0;
  std::uint32_t highest_mhz = 0;
  std::int32_t name = -1;
  std::uint32_t correlation = 0;
  std::uint32_t launch = 0;
  std::uint32_t seen = 0;
  std::uint32_t grid_x = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t local_bytes_per_thread = 0;
  std::uint32_t passes = 0;
  std::uint16_t grid_y = 0;
  std::uint16_t grid_z = 0;
  std::uint16_t block_x = 0;
  std::uint16_t block_y = 0;
  std::uint16_t block_z = 0;
  std::uint16_t registers = 0;
  std::uint8_t flags = 0;

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    name = text_of(record.name);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    correlation = static_cast<std::uint32_t>(record.correlation);
    launch = static_cast<std::uint32_t>(record.launch);
    seen = static_cast<std::uint32_t>(record.seen);
    grid_x = static_cast<std::uint32_t>(record.grid_x);
    grid_y = static_cast<std::uint16_t>(record.grid_y);
    grid_z = static_cast<std::uint16_t>(record.grid_z);
    block_x = static_cast<std::uint16_t>(record.block_x);
    block_y = static_cast<std::uint16_t>(record.block_y);
    block_z = static_cast<std::uint16_t>(record.block_z);
    registers = static_cast<std::uint16_t>(record.registers);
    static_shared_bytes = static_cast<std::uint32_t>(record.static_shared_bytes);
    dynamic_shared_bytes = static_cast<std::uint32_t>(record.dynamic_shared_bytes);
    local_bytes_per_thread = static_cast<std::uint32_t>(record.local_bytes_per_thread);
    passes = static_cast<std::uint32_t>(record.passes);
    kernels = static_cast<std::uint64_t>(record.kernels);
    flags = static_cast<std::uint8_t>(record.flags);
  }
};

template <>
struct ColumnsOf<ProfiledKernelRow> {
  static void visit(const auto &visitor) {
    visitor("device_id", [](const auto &in, const ProfiledKernelRow &row) {
      return device_of(in, row.place);
    });
    visitor("context_id", [](const auto &in, const ProfiledKernelRow &row) {
      return context_of(in, row.place);
    });
    visitor("stream_id", [](const auto &in, const ProfiledKernelRow &row) {
      return stream_of(in, row.place);
    });
    visitor("process_id", [](const auto &in, const ProfiledKernelRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("launch_number", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.launch);
    });
    visitor("thread_id", [](const auto &in, const ProfiledKernelRow &row) {
      return row_id(in, row.thread);
    });
    visitor("start_ns", [](const auto &in, const ProfiledKernelRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const ProfiledKernelRow &row) {
      return time(in, row.end_ns);
    });
    visitor("correlation_id", [](const auto &in, const ProfiledKernelRow &row) {
      return number_or_null(in, row.correlation);
    });
    visitor("earlier_launches", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.seen);
    });
    visitor("name_id", [](const auto &in, const ProfiledKernelRow &row) {
      return kernel_name(in, row.name);
    });
    visitor("short_name_id", [](const auto &in, const ProfiledKernelRow &row) {
      return kernel_short_name(in, row.name);
    });
    visitor("mangled_name_id", [](const auto &in, const ProfiledKernelRow &row) {
      return kernel_mangled_name(in, row.name);
    });
    visitor("grid_x", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.grid_x);
    });
    visitor("grid_y", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.grid_y);
    });
    visitor("grid_z", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.grid_z);
    });
    visitor("block_x", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.block_x);
    });
    visitor("block_y", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.block_y);
    });
    visitor("block_z", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.block_z);
    });
    visitor("registers_per_thread", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.registers);
    });
    visitor("static_shared_bytes", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.static_shared_bytes);
    });
    visitor("dynamic_shared_bytes", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.dynamic_shared_bytes);
    });
    visitor("local_per_thread_bytes", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.local_bytes_per_thread);
    });
    visitor("nvtx_id", [](const auto &in, const ProfiledKernelRow &row) {
      return text(in, row.nvtx);
    });
    visitor("has_fixed_clocks", [](const auto &in, const ProfiledKernelRow &row) {
      return fixed_clocks(in, row.has(raw::CountedKernel::kIsClockAsked), row.has(raw::CountedKernel::kHasFixedClocks));
    });
    visitor("passes", [](const auto &in, const ProfiledKernelRow &row) {
      return number(in, row.passes);
    });
    visitor("clock_drift_ratio", [](const auto &in, const ProfiledKernelRow &row) {
      return clock_drift(in, row.lowest_mhz, row.highest_mhz);
    });
    visitor("is_range", [](const auto &in, const ProfiledKernelRow &row) {
      return flag(in, row.has(raw::CountedKernel::kIsRange));
    });
    visitor("kernels", [](const auto &in, const ProfiledKernelRow &row) {
      return launched_kernels(in, row.has(raw::CountedKernel::kIsRange), row.kernels);
    });
  }
  static auto first(const auto &in, const ProfiledKernelRow &row) {
    return number(in, row.launch).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const ProfiledKernelRow &row) {
    return std::tuple(process_of_place(in, row.place).value);
  }
};

// A row of kernel_metric, made of a CounterValue record.
struct KernelMetricRow {
  using Record = raw::CounterValue;
  static constexpr std::size_t kNumber = 12;
  static constexpr std::string_view kTable = "kernel_metric";
  static constexpr RowOf kOwner = RowOf::kProcess;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::uint64_t launch = 0;
  double value = 0;
  std::int32_t process = 0;
  std::uint32_t metric = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    metric = static_cast<std::uint32_t>(record.metric);
    launch = static_cast<std::uint64_t>(record.launch);
    value = static_cast<double>(record.value);
  }
};

template <>
struct ColumnsOf<KernelMetricRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const KernelMetricRow &row) {
      return row_id(in, row.process);
    });
    visitor("profiled_kernel_id", [](const auto &in, const KernelMetricRow &row) {
      return row_id(in, row.launch);
    });
    visitor("name_id", [](const auto &in, const KernelMetricRow &row) {
      return metric_name(in, row.metric);
    });
    visitor("unit_id", [](const auto &in, const KernelMetricRow &row) {
      return metric_unit(in, row.metric);
    });
    visitor("value", [](const auto &in, const KernelMetricRow &row) {
      return real(in, row.value);
    });
    visitor("instances", [](const auto &in, const KernelMetricRow &row) {
      return none_of(in, row.metric);
    });
  }
  static auto first(const auto &in, const KernelMetricRow &row) {
    return row_id(in, row.launch).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const KernelMetricRow &row) {
    return std::tuple();
  }
};

// A row of um_cpu_page_fault, made of a CpuFault record.
struct UmCpuPageFaultRow {
  using Record = raw::CpuFault;
  static constexpr std::size_t kNumber = 13;
  static constexpr std::string_view kTable = "um_cpu_page_fault";
  static constexpr RowOf kOwner = RowOf::kProcess;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = false;

  std::int64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t pc = 0;
  std::int32_t process = 0;
  std::int32_t function = -1;
  std::int32_t module = -1;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    time_ns = static_cast<std::int64_t>(record.time_ns);
    address = static_cast<std::uint64_t>(record.address);
    pc = static_cast<std::uint64_t>(record.pc);
  }
};

template <>
struct ColumnsOf<UmCpuPageFaultRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const UmCpuPageFaultRow &row) {
      return row_id(in, row.process);
    });
    visitor("time_ns", [](const auto &in, const UmCpuPageFaultRow &row) {
      return time(in, row.time_ns);
    });
    visitor("address", [](const auto &in, const UmCpuPageFaultRow &row) {
      return number(in, row.address);
    });
    visitor("pc", [](const auto &in, const UmCpuPageFaultRow &row) {
      return number_or_null(in, row.pc);
    });
    visitor("function_id", [](const auto &in, const UmCpuPageFaultRow &row) {
      return text(in, row.function);
    });
    visitor("module_id", [](const auto &in, const UmCpuPageFaultRow &row) {
      return text(in, row.module);
    });
  }
  static auto first(const auto &in, const UmCpuPageFaultRow &row) {
    return time(in, row.time_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const UmCpuPageFaultRow &row) {
    return std::tuple(row_id(in, row.process).value,
                      number(in, row.address).value);
  }
};

// A row of um_gpu_page_fault, made of a GpuFault record.
struct UmGpuPageFaultRow {
  using Record = raw::GpuFault;
  static constexpr std::size_t kNumber = 14;
  static constexpr std::string_view kTable = "um_gpu_page_fault";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = true;
  static constexpr bool kIsAlike = false;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t faults = 0;
  std::uint32_t place = 0;
  std::uint32_t access = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    access = static_cast<std::uint32_t>(record.access);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    address = static_cast<std::uint64_t>(record.address);
    faults = static_cast<std::uint64_t>(record.faults);
  }
};

template <>
struct ColumnsOf<UmGpuPageFaultRow> {
  static void visit(const auto &visitor) {
    visitor("device_id", [](const auto &in, const UmGpuPageFaultRow &row) {
      return device_of(in, row.place);
    });
    visitor("context_id", [](const auto &in, const UmGpuPageFaultRow &row) {
      return context_of(in, row.place);
    });
    visitor("stream_id", [](const auto &in, const UmGpuPageFaultRow &row) {
      return stream_of(in, row.place);
    });
    visitor("process_id", [](const auto &in, const UmGpuPageFaultRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("start_ns", [](const auto &in, const UmGpuPageFaultRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const UmGpuPageFaultRow &row) {
      return time(in, row.end_ns);
    });
    visitor("address", [](const auto &in, const UmGpuPageFaultRow &row) {
      return number(in, row.address);
    });
    visitor("faults", [](const auto &in, const UmGpuPageFaultRow &row) {
      return number(in, row.faults);
    });
    visitor("access", [](const auto &in, const UmGpuPageFaultRow &row) {
      return page_access(in, row.access);
    });
  }
  static auto first(const auto &in, const UmGpuPageFaultRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const UmGpuPageFaultRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      device_of(in, row.place).value,
                      number(in, row.address).value);
  }
};

// A row of pc_sample, made of a PcSample record.
struct PcSampleRow {
  using Record = raw::PcSample;
  static constexpr std::size_t kNumber = 15;
  static constexpr std::string_view kTable = "pc_sample";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::uint64_t checksum = 0;
  std::uint64_t samples = 0;
  std::uint64_t not_issued = 0;
  std::uint32_t place = 0;
  std::int32_t function = -1;
  std::uint32_t offset = 0;
  std::int32_t stall = -1;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    function = text_of(record.function);
    checksum = static_cast<std::uint64_t>(record.checksum);
    offset = static_cast<std::uint32_t>(record.offset);
    stall = text_of(record.stall);
    samples = static_cast<std::uint64_t>(record.samples);
    not_issued = static_cast<std::uint64_t>(record.not_issued);
  }
};

template <>
struct ColumnsOf<PcSampleRow> {
  static void visit(const auto &visitor) {
    visitor("device_id", [](const auto &in, const PcSampleRow &row) {
      return device_of(in, row.place);
    });
    visitor("context_id", [](const auto &in, const PcSampleRow &row) {
      return context_of(in, row.place);
    });
    visitor("stream_id", [](const auto &in, const PcSampleRow &row) {
      return stream_of(in, row.place);
    });
    visitor("process_id", [](const auto &in, const PcSampleRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("module_checksum", [](const auto &in, const PcSampleRow &row) {
      return number(in, row.checksum);
    });
    visitor("function_id", [](const auto &in, const PcSampleRow &row) {
      return kernel_symbol(in, row.function);
    });
    visitor("name_id", [](const auto &in, const PcSampleRow &row) {
      return kernel_name(in, row.function);
    });
    visitor("short_name_id", [](const auto &in, const PcSampleRow &row) {
      return kernel_short_name(in, row.function);
    });
    visitor("offset_bytes", [](const auto &in, const PcSampleRow &row) {
      return number(in, row.offset);
    });
    visitor("stall_id", [](const auto &in, const PcSampleRow &row) {
      return text(in, row.stall);
    });
    visitor("samples", [](const auto &in, const PcSampleRow &row) {
      return number(in, row.samples);
    });
    visitor("not_issued_samples", [](const auto &in, const PcSampleRow &row) {
      return number(in, row.not_issued);
    });
  }
  static auto first(const auto &in, const PcSampleRow &row) {
    return process_of_place(in, row.place).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const PcSampleRow &row) {
    return std::tuple(device_of(in, row.place).value,
                      number(in, row.checksum).value,
                      number(in, row.offset).value);
  }
};

// A row of pc_sampling, made of a PcSampling record.
struct PcSamplingRow {
  using Record = raw::PcSampling;
  static constexpr std::size_t kNumber = 16;
  static constexpr std::string_view kTable = "pc_sampling";
  static constexpr RowOf kOwner = RowOf::kPlace;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::uint64_t total_samples = 0;
  std::uint64_t dropped_samples = 0;
  std::uint64_t non_user_samples = 0;
  std::uint32_t place = 0;
  std::uint32_t period_cycles = 0;
  std::uint32_t modules_left_out = 0;
  std::uint8_t is_buffer_full = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    period_cycles = static_cast<std::uint32_t>(record.period_cycles);
    modules_left_out = static_cast<std::uint32_t>(record.modules_left_out);
    total_samples = static_cast<std::uint64_t>(record.total_samples);
    dropped_samples = static_cast<std::uint64_t>(record.dropped_samples);
    non_user_samples = static_cast<std::uint64_t>(record.non_user_samples);
    is_buffer_full = static_cast<std::uint8_t>(record.is_buffer_full);
  }
};

template <>
struct ColumnsOf<PcSamplingRow> {
  static void visit(const auto &visitor) {
    visitor("device_id", [](const auto &in, const PcSamplingRow &row) {
      return device_of(in, row.place);
    });
    visitor("context_id", [](const auto &in, const PcSamplingRow &row) {
      return context_of(in, row.place);
    });
    visitor("stream_id", [](const auto &in, const PcSamplingRow &row) {
      return stream_of(in, row.place);
    });
    visitor("process_id", [](const auto &in, const PcSamplingRow &row) {
      return process_of_place(in, row.place);
    });
    visitor("period_cycles", [](const auto &in, const PcSamplingRow &row) {
      return number(in, row.period_cycles);
    });
    visitor("total_samples", [](const auto &in, const PcSamplingRow &row) {
      return number(in, row.total_samples);
    });
    visitor("dropped_samples", [](const auto &in, const PcSamplingRow &row) {
      return number(in, row.dropped_samples);
    });
    visitor("non_user_samples", [](const auto &in, const PcSamplingRow &row) {
      return number(in, row.non_user_samples);
    });
    visitor("modules_left_out", [](const auto &in, const PcSamplingRow &row) {
      return number(in, row.modules_left_out);
    });
    visitor("hardware_buffer_full", [](const auto &in, const PcSamplingRow &row) {
      return flag(in, row.is_buffer_full);
    });
  }
  static auto first(const auto &in, const PcSamplingRow &row) {
    return process_of_place(in, row.place).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const PcSamplingRow &row) {
    return std::tuple(device_of(in, row.place).value);
  }
};

// A row of cpu_sample, made of a CpuSample record.
struct CpuSampleRow {
  using Record = raw::CpuSample;
  static constexpr std::size_t kNumber = 17;
  static constexpr std::string_view kTable = "cpu_sample";
  static constexpr RowOf kOwner = RowOf::kThread;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  std::uint32_t chain_number = 0;
  std::uint32_t period = 0;
  std::uint32_t cpu = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    time_ns = static_cast<std::int64_t>(record.time_ns);
    period = static_cast<std::uint32_t>(record.period);
    cpu = static_cast<std::uint32_t>(record.cpu);
  }
};

template <>
struct ColumnsOf<CpuSampleRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const CpuSampleRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("thread_id", [](const auto &in, const CpuSampleRow &row) {
      return row_id(in, row.thread);
    });
    visitor("time_ns", [](const auto &in, const CpuSampleRow &row) {
      return time(in, row.time_ns);
    });
    visitor("cpu", [](const auto &in, const CpuSampleRow &row) {
      return cpu_or_null(in, row.cpu);
    });
    visitor("cycles", [](const auto &in, const CpuSampleRow &row) {
      return number(in, row.period);
    });
    visitor("period_ns", [](const auto &in, const CpuSampleRow &row) {
      return number(in, row.period);
    });
    visitor("stack_id", [](const auto &in, const CpuSampleRow &row) {
      return stack_of(in, row.chain_number);
    });
  }
  static auto first(const auto &in, const CpuSampleRow &row) {
    return time(in, row.time_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const CpuSampleRow &row) {
    return std::tuple(row_id(in, row.thread).value,
                      cpu_or_null(in, row.cpu).value);
  }
};

// A row of sched_event, made of a SchedEvent record.
struct SchedEventRow {
  using Record = raw::SchedEvent;
  static constexpr std::size_t kNumber = 18;
  static constexpr std::string_view kTable = "sched_event";
  static constexpr RowOf kOwner = RowOf::kThread;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  std::uint32_t chain_number = 0;
  std::uint32_t cpu = 0;
  std::uint8_t is_in = 0;
  std::uint8_t state = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    is_in = static_cast<std::uint8_t>(record.is_in);
    state = static_cast<std::uint8_t>(record.state);
    time_ns = static_cast<std::int64_t>(record.time_ns);
    cpu = static_cast<std::uint32_t>(record.cpu);
  }
};

template <>
struct ColumnsOf<SchedEventRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const SchedEventRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("thread_id", [](const auto &in, const SchedEventRow &row) {
      return row_id(in, row.thread);
    });
    visitor("time_ns", [](const auto &in, const SchedEventRow &row) {
      return time(in, row.time_ns);
    });
    visitor("cpu", [](const auto &in, const SchedEventRow &row) {
      return number(in, row.cpu);
    });
    visitor("is_sched_in", [](const auto &in, const SchedEventRow &row) {
      return flag(in, row.is_in);
    });
    visitor("state", [](const auto &in, const SchedEventRow &row) {
      return label_or_null(in, row.state);
    });
    visitor("stack_id", [](const auto &in, const SchedEventRow &row) {
      return stack_of(in, row.chain_number);
    });
  }
  static auto first(const auto &in, const SchedEventRow &row) {
    return time(in, row.time_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const SchedEventRow &row) {
    return std::tuple(number(in, row.cpu).value,
                      flag(in, row.is_in).value,
                      row_id(in, row.thread).value);
  }
};

// A row of os_call, made of a OsCall record.
struct OsCallRow {
  using Record = raw::OsCall;
  static constexpr std::size_t kNumber = 19;
  static constexpr std::string_view kTable = "os_call";
  static constexpr RowOf kOwner = RowOf::kThread;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t return_value = 0;
  std::uint32_t thread = 0;
  std::int32_t function_name = -1;
  std::uint32_t chain_number = 0;
  std::uint32_t level = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    return_value = static_cast<std::int64_t>(record.return_value);
  }
};

template <>
struct ColumnsOf<OsCallRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const OsCallRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("thread_id", [](const auto &in, const OsCallRow &row) {
      return row_id(in, row.thread);
    });
    visitor("start_ns", [](const auto &in, const OsCallRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const OsCallRow &row) {
      return time(in, row.end_ns);
    });
    visitor("name_id", [](const auto &in, const OsCallRow &row) {
      return text(in, row.function_name);
    });
    visitor("return_value", [](const auto &in, const OsCallRow &row) {
      return number(in, row.return_value);
    });
    visitor("nesting_level", [](const auto &in, const OsCallRow &row) {
      return number(in, row.level);
    });
    visitor("stack_id", [](const auto &in, const OsCallRow &row) {
      return stack_of(in, row.chain_number);
    });
  }
  static auto first(const auto &in, const OsCallRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const OsCallRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      row_id(in, row.thread).value);
  }
};

// A row of library_call, made of a LibraryCall record.
struct LibraryCallRow {
  using Record = raw::LibraryCall;
  static constexpr std::size_t kNumber = 20;
  static constexpr std::string_view kTable = "library_call";
  static constexpr RowOf kOwner = RowOf::kThread;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t thread = 0;
  std::uint32_t chain_number = 0;
  std::int32_t name = -1;
  std::int32_t library = -1;
  std::int32_t arguments = -1;
  std::uint32_t status = 0;
  std::uint8_t flags = 0;

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    name = text_of(record.name);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
    library = text_of(record.library);
    arguments = text_of(record.arguments);
    status = static_cast<std::uint32_t>(record.status);
    flags = static_cast<std::uint8_t>(record.flags);
  }
};

template <>
struct ColumnsOf<LibraryCallRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const LibraryCallRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("thread_id", [](const auto &in, const LibraryCallRow &row) {
      return row_id(in, row.thread);
    });
    visitor("start_ns", [](const auto &in, const LibraryCallRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const LibraryCallRow &row) {
      return time(in, row.end_ns);
    });
    visitor("process_id", [](const auto &in, const LibraryCallRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("library_id", [](const auto &in, const LibraryCallRow &row) {
      return text(in, row.library);
    });
    visitor("name_id", [](const auto &in, const LibraryCallRow &row) {
      return text(in, row.name);
    });
    visitor("arguments_id", [](const auto &in, const LibraryCallRow &row) {
      return text(in, row.arguments);
    });
    visitor("return_value", [](const auto &in, const LibraryCallRow &row) {
      return signed_number_if(in, row.has(raw::LibraryCall::kHasStatus), row.status);
    });
    visitor("stack_id", [](const auto &in, const LibraryCallRow &row) {
      return stack_of(in, row.chain_number);
    });
  }
  static auto first(const auto &in, const LibraryCallRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const LibraryCallRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      row_id(in, row.thread).value);
  }
};

// A row of nccl_op, made of a NcclOperation record.
struct NcclOpRow {
  using Record = raw::NcclOperation;
  static constexpr std::size_t kNumber = 21;
  static constexpr std::string_view kTable = "nccl_op";
  static constexpr RowOf kOwner = RowOf::kThread;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::int64_t time_ns = 0;
  std::int64_t call_ns = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;
  std::uint32_t thread = 0;
  std::int32_t name = -1;
  std::uint32_t rank = 0;
  std::uint32_t rank_count = 0;
  std::uint32_t node_count = 0;
  std::int32_t communicator = -1;
  std::int32_t communicator_name = -1;
  std::int32_t dtype = -1;
  std::int32_t algorithm = -1;
  std::int32_t protocol = -1;
  std::uint32_t peer = 0;
  std::uint16_t channels = 0;
  std::uint16_t warps = 0;
  std::uint8_t flags = 0;

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    name = text_of(record.name);
    time_ns = static_cast<std::int64_t>(record.time_ns);
    call_ns = static_cast<std::int64_t>(record.call_ns);
    count = static_cast<std::uint64_t>(record.count);
    bytes = static_cast<std::uint64_t>(record.bytes);
    rank = static_cast<std::uint32_t>(record.rank);
    rank_count = static_cast<std::uint32_t>(record.rank_count);
    node_count = static_cast<std::uint32_t>(record.node_count);
    channels = static_cast<std::uint16_t>(record.channels);
    warps = static_cast<std::uint16_t>(record.warps);
    communicator = text_of(record.communicator);
    communicator_name = text_of(record.communicator_name);
    dtype = text_of(record.dtype);
    algorithm = text_of(record.algorithm);
    protocol = text_of(record.protocol);
    sequence = static_cast<std::uint64_t>(record.sequence);
    peer = static_cast<std::uint32_t>(record.peer);
    flags = static_cast<std::uint8_t>(record.flags);
  }
};

template <>
struct ColumnsOf<NcclOpRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const NcclOpRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("thread_id", [](const auto &in, const NcclOpRow &row) {
      return row_id(in, row.thread);
    });
    visitor("time_ns", [](const auto &in, const NcclOpRow &row) {
      return time(in, row.time_ns);
    });
    visitor("call_ns", [](const auto &in, const NcclOpRow &row) {
      return time_or_null(in, row.call_ns);
    });
    visitor("process_id", [](const auto &in, const NcclOpRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("name_id", [](const auto &in, const NcclOpRow &row) {
      return text(in, row.name);
    });
    visitor("count", [](const auto &in, const NcclOpRow &row) {
      return number_if(in, row.has(raw::NcclOperation::kHasCount), row.count);
    });
    visitor("bytes", [](const auto &in, const NcclOpRow &row) {
      return number_if(in, row.has(raw::NcclOperation::kHasCount), row.bytes);
    });
    visitor("dtype_id", [](const auto &in, const NcclOpRow &row) {
      return text(in, row.dtype);
    });
    visitor("communicator_id", [](const auto &in, const NcclOpRow &row) {
      return text(in, row.communicator);
    });
    visitor("communicator_name_id", [](const auto &in, const NcclOpRow &row) {
      return text(in, row.communicator_name);
    });
    visitor("rank", [](const auto &in, const NcclOpRow &row) {
      return signed_number(in, row.rank);
    });
    visitor("rank_count", [](const auto &in, const NcclOpRow &row) {
      return number_or_null(in, row.rank_count);
    });
    visitor("node_count", [](const auto &in, const NcclOpRow &row) {
      return number_or_null(in, row.node_count);
    });
    visitor("peer", [](const auto &in, const NcclOpRow &row) {
      return signed_number_if(in, row.has(raw::NcclOperation::kHasPeer), row.peer);
    });
    visitor("sequence", [](const auto &in, const NcclOpRow &row) {
      return number_if(in, row.has(raw::NcclOperation::kHasSequence), row.sequence);
    });
    visitor("algorithm_id", [](const auto &in, const NcclOpRow &row) {
      return text(in, row.algorithm);
    });
    visitor("protocol_id", [](const auto &in, const NcclOpRow &row) {
      return text(in, row.protocol);
    });
    visitor("channels", [](const auto &in, const NcclOpRow &row) {
      return number_or_null(in, row.channels);
    });
    visitor("warps", [](const auto &in, const NcclOpRow &row) {
      return number_or_null(in, row.warps);
    });
  }
  static auto first(const auto &in, const NcclOpRow &row) {
    return time(in, row.time_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const NcclOpRow &row) {
    return std::tuple(row_id(in, row.thread).value,
                      signed_number(in, row.rank).value);
  }
};

// A row of python_sample, made of a PythonSample record.
struct PythonSampleRow {
  using Record = raw::PythonSample;
  static constexpr std::size_t kNumber = 22;
  static constexpr std::string_view kTable = "python_sample";
  static constexpr RowOf kOwner = RowOf::kThread;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::int64_t time_ns = 0;
  std::uint64_t period = 0;
  std::uint32_t thread = 0;
  std::uint32_t chain_number = 0;
  std::uint8_t is_running = 0;
  std::uint8_t has_gil = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    is_running = static_cast<std::uint8_t>(record.is_running);
    has_gil = static_cast<std::uint8_t>(record.has_gil);
    time_ns = static_cast<std::int64_t>(record.time_ns);
    period = static_cast<std::uint64_t>(record.period);
  }
};

template <>
struct ColumnsOf<PythonSampleRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const PythonSampleRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("thread_id", [](const auto &in, const PythonSampleRow &row) {
      return row_id(in, row.thread);
    });
    visitor("time_ns", [](const auto &in, const PythonSampleRow &row) {
      return time(in, row.time_ns);
    });
    visitor("period_ns", [](const auto &in, const PythonSampleRow &row) {
      return number(in, row.period);
    });
    visitor("is_running", [](const auto &in, const PythonSampleRow &row) {
      return known_flag(in, row.is_running);
    });
    visitor("has_gil", [](const auto &in, const PythonSampleRow &row) {
      return known_flag(in, row.has_gil);
    });
    visitor("stack_id", [](const auto &in, const PythonSampleRow &row) {
      return stack_of(in, row.chain_number);
    });
  }
  static auto first(const auto &in, const PythonSampleRow &row) {
    return time(in, row.time_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const PythonSampleRow &row) {
    return std::tuple(row_id(in, row.thread).value);
  }
};

// A row of gil_span, made of a GilSpan record.
struct GilSpanRow {
  using Record = raw::GilSpan;
  static constexpr std::size_t kNumber = 23;
  static constexpr std::string_view kTable = "gil_span";
  static constexpr RowOf kOwner = RowOf::kThread;
  static constexpr bool kIsOnGpuClock = false;
  static constexpr bool kIsAlike = false;

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t thread = 0;
  std::uint8_t state = 0;

  void take(const Record &record, [[maybe_unused]] const auto &text_of) {
    state = static_cast<std::uint8_t>(record.state);
    start_ns = static_cast<std::int64_t>(record.start_ns);
    end_ns = static_cast<std::int64_t>(record.end_ns);
  }
};

template <>
struct ColumnsOf<GilSpanRow> {
  static void visit(const auto &visitor) {
    visitor("process_id", [](const auto &in, const GilSpanRow &row) {
      return process_of_thread(in, row.thread);
    });
    visitor("thread_id", [](const auto &in, const GilSpanRow &row) {
      return row_id(in, row.thread);
    });
    visitor("start_ns", [](const auto &in, const GilSpanRow &row) {
      return time(in, row.start_ns);
    });
    visitor("end_ns", [](const auto &in, const GilSpanRow &row) {
      return time(in, row.end_ns);
    });
    visitor("state", [](const auto &in, const GilSpanRow &row) {
      return label(in, row.state);
    });
  }
  static auto first(const auto &in, const GilSpanRow &row) {
    return time(in, row.start_ns).value;
  }
  static auto others([[maybe_unused]] const auto &in, [[maybe_unused]] const GilSpanRow &row) {
    return std::tuple(time(in, row.end_ns).value,
                      row_id(in, row.thread).value,
                      label(in, row.state).value);
  }
};

// All of them.
template <typename... Row>
struct RowTypes {};
using AllRows = RowTypes<ApiCallRow,
                         KernelRow,
                         MemcpyRow,
                         MemsetRow,
                         GraphLaunchRow,
                         HostWaitRow,
                         StreamWaitRow,
                         EventRecordRow,
                         MemoryEventRow,
                         OverheadRow,
                         GraphNodeRow,
                         ProfiledKernelRow,
                         KernelMetricRow,
                         UmCpuPageFaultRow,
                         UmGpuPageFaultRow,
                         PcSampleRow,
                         PcSamplingRow,
                         CpuSampleRow,
                         SchedEventRow,
                         OsCallRow,
                         LibraryCallRow,
                         NcclOpRow,
                         PythonSampleRow,
                         GilSpanRow>;

}  // namespace warpline
