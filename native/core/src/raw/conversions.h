// What becomes of the members of a row in its columns. records.toml names these functions; each
// takes the sealed tables and members, and its type is that of the column in the schema.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tuple>

#include "raw/column.h"
#include "raw/tables.h"

namespace warpline {

// What the functions below look things up in.
struct SealedTables {
  const RawTables &tables;
  int64_t origin_ns;  // from which times count
};

// A value in the size that its column has.
template <typename Type>
struct Value : Maybe {
  using Stored = Type;
};
using Number = Value<int64_t>;
using Real = Value<int64_t>;  // its bits
using Label = Value<int32_t>;   // also the number of a text or of a row
using Flag = Value<uint8_t>;

// ---- as they are

inline Number number(const SealedTables &, uint64_t value) {
  return {{static_cast<int64_t>(value), true}};
}
inline Number number_or_null(const SealedTables &, uint64_t value) {
  return {{static_cast<int64_t>(value), value != 0}};
}
inline Number number_if(const SealedTables &, bool is_there, uint64_t value) {
  return {{static_cast<int64_t>(value), is_there}};
}
inline Number cpu_or_null(const SealedTables &, uint32_t cpu) {
  return {{cpu, cpu != UINT32_MAX}};
}
// Of 32 bits that are a signed number.
inline Number signed_number(const SealedTables &, uint32_t value) {
  return {{static_cast<int32_t>(value), true}};
}
inline Number signed_number_if(const SealedTables &, bool is_there, uint32_t value) {
  return {{static_cast<int32_t>(value), is_there}};
}
inline Real real(const SealedTables &, double value) {
  return {{std::bit_cast<int64_t>(value), true}};
}
inline Number time(const SealedTables &in, int64_t time_ns) {
  return {{time_ns - in.origin_ns, true}};
}
// 0 is none, and what no clock shows, too.
inline Number time_or_null(const SealedTables &in, int64_t time_ns) {
  if (time_ns <= 0 || time_ns > kFarNs) return {{0, false}};
  return {{time_ns - in.origin_ns, true}};
}
inline Label text(const SealedTables &, int32_t number) { return {{number, number >= 0}}; }
inline Label label(const SealedTables &, uint32_t value) { return {{value, true}}; }
inline Label label_or_null(const SealedTables &, uint32_t value) { return {{value, value != 0}}; }
inline Flag flag(const SealedTables &, bool value) { return {{value, true}}; }
inline Flag known_flag(const SealedTables &, uint32_t known) {
  return {{known == static_cast<uint32_t>(raw::Known::kYes), known != 0}};
}

// ---- whose a row is

inline Label row_id(const SealedTables &, int64_t row) { return {{row, true}}; }
inline Label row_or_none(int64_t row) { return {{row, row >= 0}}; }

inline const CudaPlace &place_in(const SealedTables &in, uint32_t place) {
  return in.tables.cuda.places[place];
}
inline Label process_of_thread(const SealedTables &in, uint32_t thread) {
  return {{in.tables.threads[thread].process, true}};
}
inline Label process_of_place(const SealedTables &in, uint32_t place) {
  return {{place_in(in, place).process, true}};
}
inline Label device_of(const SealedTables &in, uint32_t place) {
  return {{place_in(in, place).device_row, true}};
}
inline Label context_of(const SealedTables &in, uint32_t place) {
  return row_or_none(place_in(in, place).context_row);
}
inline Label stream_of(const SealedTables &in, uint32_t place) {
  return row_or_none(place_in(in, place).stream_row);
}

// ---- CUDA's numbers

// CUPTI counts kinds of memory from 1 and calls the unknown 0; the schema counts from 0 and calls
// it 7.
inline Label memory_kind(const SealedTables &, uint32_t cupti) {
  return {{cupti >= 1 && cupti <= 7 ? cupti - 1 : 7, true}};
}
// Kinds from 11 on are migrations, which CUPTI has no number for.
inline Label copy_kind(const SealedTables &, uint32_t number) {
  return {{number <= 13 ? number : 0, true}};
}
inline Label migration_cause(const SealedTables &, bool is_migration, uint32_t cupti) {
  return {{cupti <= 5 ? cupti : 0, is_migration}};
}
inline Label page_access(const SealedTables &, uint32_t cupti) {
  return {{cupti <= 4 ? cupti : 0, true}};
}
inline Number copy_count(const SealedTables &, bool is_batch, uint64_t copies) {
  return {{is_batch ? static_cast<uint32_t>(copies) : 1, true}};
}
inline Label is_release(const SealedTables &, uint32_t operation) {
  return {{operation == 2, true}};
}
inline Label launch_kind(const SealedTables &, bool is_cooperative, bool is_of_several_devices) {
  return {{is_of_several_devices ? 3 : is_cooperative ? 2 : 1, true}};
}
inline Label graph_level(const SealedTables &, uint32_t nodes) { return {{nodes != 0, true}}; }
// How many kernels were counted together.
inline Number launched_kernels(const SealedTables &, bool is_range, uint64_t kernels) {
  return {{static_cast<int64_t>(is_range ? std::min<uint64_t>(kernels, INT64_MAX) : 1), true}};
}
// How much the clock differed between the passes over a launch, of its highest; 0: not known.
inline Real clock_drift(const SealedTables &in, uint32_t lowest_mhz, uint32_t highest_mhz) {
  if (lowest_mhz == 0 || lowest_mhz > highest_mhz) return {{0, false}};
  return real(in, static_cast<double>(highest_mhz - lowest_mhz) / highest_mhz);
}
inline Number event_or_null(const SealedTables &, uint32_t event) {
  return {{event, event != raw::kCudaNone}};
}

// Whether the clocks were fixed, where that was asked for.
inline Flag fixed_clocks(const SealedTables &, bool is_asked, bool is_fixed) {
  return {{is_fixed, is_asked}};
}

// ---- joined

// CUDA's id of the green context that work ran in.
inline Number green_context_of(const SealedTables &in, uint32_t place) {
  const CudaPlace &found = place_in(in, place);
  return {{found.context, found.is_green}};
}
// The device at one end of a copy between two.
inline Label peer_device(const SealedTables &in, bool is_peer, uint32_t place, uint32_t device) {
  if (!is_peer) return row_or_none(-1);
  const int32_t process = place_in(in, place).process;
  return row_or_none(in.tables.cuda.device_rows.at({process, peer_number(device)}));
}
inline Label thread_of(const SealedTables &in, int32_t process, uint32_t object_kind,
                       uint32_t object_id) {
  constexpr uint32_t kThread = 2;
  if (object_kind != kThread || object_id == 0) return row_or_none(-1);
  const auto found = in.tables.thread_of.find({process, object_id});
  return row_or_none(found == in.tables.thread_of.end() ? -1 : int64_t{found->second});
}
inline Label stack_of(const SealedTables &in, uint32_t chain) {
  return row_or_none(in.tables.cuda.chains.stack_of(chain));
}

inline const CudaCallName &call_in(const SealedTables &in, int32_t name) {
  return in.tables.cuda.call_names[static_cast<std::size_t>(name)];
}
inline Label call_text(const SealedTables &in, int32_t name) {
  return {{call_in(in, name).text, true}};
}
inline Label call_api(const SealedTables &in, int32_t name) {
  return {{call_in(in, name).is_driver, true}};
}

inline const CudaKernelName &name_in(const SealedTables &in, int32_t name) {
  return in.tables.cuda.names[static_cast<std::size_t>(name)];
}
inline Label kernel_name(const SealedTables &in, int32_t name) {
  return {{name_in(in, name).full, true}};
}
inline Label kernel_short_name(const SealedTables &in, int32_t name) {
  return {{name_in(in, name).base, true}};
}
// Of a metric that has no values but its own.
inline Number none_of(const SealedTables &, uint32_t) { return {{0, true}}; }
inline Label metric_name(const SealedTables &in, uint32_t metric) {
  return {{in.tables.counters.metrics[metric].name, true}};
}
inline Label metric_unit(const SealedTables &in, uint32_t metric) {
  return row_or_none(in.tables.counters.metrics[metric].unit);
}

// The symbol of its code.
inline Label kernel_symbol(const SealedTables &in, int32_t name) {
  const CudaKernelName &found = name_in(in, name);
  return {{found.mangled >= 0 ? found.mangled : found.full, true}};
}
inline Label kernel_mangled_name(const SealedTables &in, int32_t name) {
  return row_or_none(name_in(in, name).mangled);
}

}  // namespace warpline
