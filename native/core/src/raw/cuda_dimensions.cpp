// Devices, contexts and streams of a raw session: every one that a row names or a process declared.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "raw/cuda.h"
#include "raw/cuda_dimensions.h"
#include "raw/tables.h"

namespace warpline {

namespace {

constexpr uint64_t kNoPci = ~uint64_t{0};
constexpr const char *kAttributePrefix = "device__attribute_";  // as ncu calls attributes

using DeviceKey = std::pair<int32_t, uint32_t>;             // process, CUDA's number
using ContextKey = std::tuple<int32_t, uint32_t, uint32_t>;  // the device's, native id

uint32_t place_in(CudaTables &cuda, int32_t process, uint32_t device, uint32_t context,
                  uint32_t stream) {
  const auto [found, is_new] = cuda.place_of.try_emplace(
      {process, device, context, stream}, static_cast<uint32_t>(cuda.places.size()));
  if (is_new) cuda.places.push_back({process, device, context, stream, 0, 0, 0, false});
  return found->second;
}

// Finds the device of a context that a row names alone.
class ContextDevices {
 public:
  explicit ContextDevices(const CudaTables &cuda) {
    for (const auto &[key, context] : cuda.declared_contexts) device_of_[key] = context.device;
    for (const auto &[key, place] : cuda.place_of) {
      const auto [process, device, context, stream] = key;
      if (context != raw::kCudaNone) device_of_.try_emplace({process, context}, device);
    }
  }

  uint32_t device_of(int32_t process, uint32_t context) const {
    const auto found = device_of_.find({process, context});
    return found == device_of_.end() ? 0 : found->second;
  }

  // The context that is meant where none is named: the first of the process.
  uint32_t first_of(int32_t process) const {
    const auto found = device_of_.lower_bound({process, 0});
    return found == device_of_.end() || found->first.first != process ? 0 : found->first.second;
  }

 private:
  std::map<std::pair<int32_t, uint32_t>, uint32_t> device_of_;
};

void place_waits(CudaTables &cuda, const ContextDevices &devices, auto &waits) {
  for (auto &wait : waits) {
    if (wait.context == raw::kCudaNone) wait.context = devices.first_of(wait.process);
    const uint32_t device = devices.device_of(wait.process, wait.context);
    wait.place = place_in(cuda, wait.process, device, wait.context, wait.stream);
  }
}

void place_events(CudaTables &cuda, const ContextDevices &devices,
                  Growing<EventRecordRow> &events) {
  for (EventRecordRow &event : events) {
    if (event.context == raw::kCudaNone) event.context = devices.first_of(event.process);
    if (event.device == raw::kCudaNone) {
      event.device = devices.device_of(event.process, event.context);
    }
    event.place = place_in(cuda, event.process, event.device, event.context, event.stream);
  }
}

bool has_uuid(const CudaDeviceFacts &facts) { return facts.uuid[0] != 0 || facts.uuid[1] != 0; }

std::string uuid_text(const std::array<uint64_t, 2> &uuid) {
  std::string text;
  for (std::size_t byte = 0; byte < 16; ++byte) {
    if (byte == 4 || byte == 6 || byte == 8 || byte == 10) text += '-';
    char digits[3];
    const unsigned value = (uuid[byte / 8] >> (byte % 8 * 8)) & 0xff;
    std::snprintf(digits, sizeof digits, "%02x", value);
    text += digits;
  }
  return text;
}

std::string bus_text(uint64_t pci) {
  char text[40];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(pci & 0xffffffff),
                static_cast<unsigned>(pci >> 32 & 0xffff), static_cast<unsigned>(pci >> 48));
  return text;
}

// A GPU of the machine: by its unique id, else by the number that processes give it.
struct Gpu {
  std::array<uint64_t, 2> uuid{};
  uint32_t number = 0;  // of one without a unique id

  auto operator<=>(const Gpu &) const = default;
};

// Numbers the GPUs that processes see; two that give one the same number may mean different ones.
class Gpus {
 public:
  explicit Gpus(RawTables &tables) : tables_(tables), cuda_(tables.cuda) {
    for (const auto &[key, facts] : cuda_.declared_devices) {
      if (!has_uuid(facts)) continue;
      facts_.try_emplace({facts.uuid, 0}, facts);
      by_number_[key.second].insert(facts.uuid);
    }
    for (const auto &[key, facts] : cuda_.declared_devices) see(key);
    for (const auto &[key, context] : cuda_.declared_contexts) see({key.first, context.device});
    for (const auto &[key, place] : cuda_.place_of) see({std::get<0>(key), std::get<1>(key)});
    for (const MemcpyRow &copy : tables.rows.of<MemcpyRow>()) {
      if (!copy.has(raw::Copy::kHasPeer)) continue;
      const int32_t process = cuda_.places[copy.place].process;
      see({process, peer_number(copy.source_device)});
      see({process, peer_number(copy.destination_device)});
    }
    number_rows();
  }

  int32_t row_of(DeviceKey key) const { return row_of_.at(gpu_of_.at(key)); }

  // The rows of all that processes see.
  std::map<DeviceKey, int32_t> rows() const {
    std::map<DeviceKey, int32_t> rows;
    for (const auto &[key, gpu] : gpu_of_) rows[key] = row_of_.at(gpu);
    return rows;
  }

 private:
  void see(DeviceKey key) {
    if (gpu_of_.contains(key)) return;
    const auto declared = cuda_.declared_devices.find(key);
    const bool is_declared = declared != cuda_.declared_devices.end();
    const auto namesakes = by_number_.find(key.second);
    Gpu gpu{{}, key.second};
    if (is_declared && has_uuid(declared->second)) {
      gpu = {declared->second.uuid, 0};
    } else if (namesakes != by_number_.end() && namesakes->second.size() == 1) {
      gpu = {*namesakes->second.begin(), 0};  // as every other process calls it
    } else if (is_declared) {
      facts_.try_emplace(gpu, declared->second);
    }
    gpu_of_[key] = gpu;
    facts_.try_emplace(gpu);
  }

  // In the order of the machine's buses, as the driver's own tools count them.
  void number_rows() {
    std::vector<Gpu> gpus;
    for (const auto &[gpu, facts] : facts_) gpus.push_back(gpu);
    const auto place = [&](const Gpu &gpu) {
      const uint64_t pci = facts_[gpu].pci;
      const bool is_unknown = pci == kNoPci;
      return std::tuple(is_unknown, pci & 0xffffffff, pci >> 32 & 0xffff, pci >> 48, gpu.number,
                        gpu.uuid);
    };
    std::sort(gpus.begin(), gpus.end(),
              [&](const Gpu &a, const Gpu &b) { return place(a) < place(b); });
    // The machine's own numbers, if they are known of all.
    const bool has_numbers = std::all_of(
        gpus.begin(), gpus.end(), [&](const Gpu &gpu) { return facts_[gpu].number != 0; });
    for (const Gpu &gpu : gpus) {
      const auto row = static_cast<int32_t>(cuda_.devices.size());
      row_of_[gpu] = row;
      CudaDevice device;
      device.facts = facts_[gpu];
      device.index = has_uuid(device.facts) ? row : static_cast<int32_t>(gpu.number);
      if (has_numbers) device.index = device.facts.number - 1;
      device.name = device.facts.name;
      if (has_uuid(device.facts)) device.uuid = tables_.texts.intern(uuid_text(gpu.uuid));
      if (device.facts.pci != kNoPci) device.bus = tables_.texts.intern(bus_text(device.facts.pci));
      for (const auto &[name, value] : device.facts.attributes) {
        cuda_.device_attributes.push_back(
            {row, tables_.texts.intern(kAttributePrefix + name), value});
      }
      cuda_.devices.push_back(device);
    }
  }

  RawTables &tables_;
  CudaTables &cuda_;
  std::map<uint32_t, std::set<std::array<uint64_t, 2>>> by_number_;
  std::map<DeviceKey, Gpu> gpu_of_;
  std::map<Gpu, CudaDeviceFacts> facts_;
  std::map<Gpu, int32_t> row_of_;
};

std::map<ContextKey, int32_t> number_contexts(CudaTables &cuda, const Gpus &gpus) {
  std::map<ContextKey, int32_t> rows;
  for (const auto &[key, declared] : cuda.declared_contexts) {
    rows[{key.first, declared.device, key.second}] = 0;
  }
  for (const auto &[key, place] : cuda.place_of) {
    const auto [process, device, context, stream] = key;
    if (context != raw::kCudaNone) rows[{process, device, context}] = 0;
  }
  for (auto &[key, row] : rows) {
    const auto [process, device, context] = key;
    row = static_cast<int32_t>(cuda.contexts.size());
    const auto declared = cuda.declared_contexts.find({process, context});
    const bool is_known =
        declared != cuda.declared_contexts.end() && declared->second.device == device;
    CudaContextRow added{process, gpus.row_of({process, device}), context, 0, false};
    if (is_known) added.parent = declared->second.parent;
    if (is_known) added.is_green = declared->second.is_green;
    cuda.contexts.push_back(added);
  }
  return rows;
}

// A stream is declared by its context alone: it is of every device on which the context is used.
std::map<CudaPlaceKey, int32_t> number_streams(CudaTables &cuda,
                                               const std::map<ContextKey, int32_t> &contexts) {
  std::map<CudaPlaceKey, CudaStream> streams;
  for (const auto &[key, row] : contexts) {
    const auto [process, device, context] = key;
    const auto declared = cuda.declared_contexts.find({process, context});
    const bool is_known =
        declared != cuda.declared_contexts.end() && declared->second.device == device;
    if (is_known && declared->second.null_stream != raw::kCudaNone) {
      streams[{process, device, context, declared->second.null_stream}] = {false, 0, true, 3};
    }
    auto stream = cuda.declared_streams.lower_bound({process, context, 0});
    for (; stream != cuda.declared_streams.end(); ++stream) {
      const auto [owner, in_context, native] = stream->first;
      if (owner != process || in_context != context) break;
      streams[{process, device, context, native}] = stream->second;
    }
  }
  for (const auto &[key, place] : cuda.place_of) {
    const bool is_stream =
        std::get<2>(key) != raw::kCudaNone && std::get<3>(key) != raw::kCudaNone;
    if (is_stream) streams.try_emplace(key);
  }
  std::map<CudaPlaceKey, int32_t> rows;
  for (const auto &[key, facts] : streams) {
    const auto [process, device, context, native] = key;
    rows[key] = static_cast<int32_t>(cuda.streams.size());
    cuda.streams.push_back({process, contexts.at({process, device, context}), native, facts});
  }
  return rows;
}

}  // namespace

void number_dimensions(RawTables &tables) {
  CudaTables &cuda = tables.cuda;
  const ContextDevices devices(cuda);
  place_waits(cuda, devices, tables.rows.of<HostWaitRow>());
  place_waits(cuda, devices, tables.rows.of<StreamWaitRow>());
  place_events(cuda, devices, tables.rows.of<EventRecordRow>());
  const Gpus gpus(tables);
  cuda.device_rows = gpus.rows();
  const std::map<ContextKey, int32_t> contexts = number_contexts(cuda, gpus);
  const std::map<CudaPlaceKey, int32_t> streams = number_streams(cuda, contexts);
  for (CudaPlace &place : cuda.places) {
    place.device_row = gpus.row_of({place.process, place.device});
    const auto context = contexts.find({place.process, place.device, place.context});
    place.context_row = context == contexts.end() ? -1 : context->second;
    const auto stream =
        streams.find({place.process, place.device, place.context, place.stream});
    place.stream_row = stream == streams.end() ? -1 : stream->second;
    if (context != contexts.end()) {
      const auto row = static_cast<std::size_t>(place.context_row);
      place.is_green = cuda.contexts[row].is_green;
    }
  }
}

}  // namespace warpline
