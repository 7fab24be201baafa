#include "nccl/operation.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include "library_calls/texts.h"
#include "session/clock.h"
#include "session/thread_log.h"
#include "warpline_raw.h"

namespace warpline::agent::nccl {
namespace {

// Writes a text to the log; returns its number, 0 for none.
std::uint32_t number_of(ThreadLog& log, const LibraryText* text) noexcept {
  return text != nullptr && define_text(log, *text) ? text->number : 0;
}

std::uint32_t number_of(ThreadLog& log, std::string_view text) noexcept {
  return text.empty() ? 0 : number_of(log, text_of(text));
}

std::uint32_t number_of(ThreadLog& log, const char* text) noexcept {
  return number_of(log, text == nullptr ? std::string_view() : std::string_view(text));
}

// ncclBfloat16 as bfloat16.
std::uint32_t number_of_dtype(ThreadLog& log, const char* dtype) noexcept {
  constexpr std::string_view kPrefix = "nccl";
  std::string_view name = dtype == nullptr ? "" : dtype;
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  char lower[32];
  if (name.size() > sizeof lower) return number_of(log, name);
  for (std::size_t i = 0; i < name.size(); ++i) {
    lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? static_cast<char>(name[i] + ('a' - 'A')) : name[i];
  }
  return number_of(log, std::string_view(lower, name.size()));
}

// As the name of a type has it, in bits; 0: it has not.
std::size_t element_bytes(const char* dtype) noexcept {
  if (dtype == nullptr) return 0;
  std::size_t bits = 0;
  const char* at = dtype + std::strcspn(dtype, "0123456789");
  for (; *at >= '0' && *at <= '9' && bits < 1000; ++at) bits = bits * 10 + static_cast<std::size_t>(*at - '0');
  return bits / 8;
}

}  // namespace

bool has_root(const char* function) noexcept {
  constexpr std::string_view kRooted[] = {"Broadcast", "Reduce", "Gather", "Scatter"};
  for (const std::string_view name : kRooted) {
    if (function != nullptr && name == function) return true;
  }
  return false;
}

void write_operation(const Operation& operation) noexcept {
  const int error = errno;
  if (LogLease log = recording_log()) {
    using raw::NcclOperation;
    const std::size_t bytes = element_bytes(operation.dtype);
    NcclOperation record{.name = number_of(*log, operation.function),
                         .time_ns = static_cast<std::uint64_t>(now_ns()),
                         .call_ns = operation.call_ns,
                         .count = operation.count,
                         .bytes = operation.count * bytes,
                         .rank = static_cast<std::uint32_t>(operation.rank),
                         .rank_count = operation.ranks,
                         .node_count = operation.nodes,
                         .channels = operation.channels,
                         .warps = operation.warps,
                         .communicator = number_of(*log, operation.communicator),
                         .communicator_name = number_of(*log, operation.communicator_name),
                         .dtype = number_of_dtype(*log, operation.dtype),
                         .algorithm = number_of(*log, operation.algorithm),
                         .protocol = number_of(*log, operation.protocol),
                         .sequence = operation.sequence,
                         .peer = static_cast<std::uint32_t>(operation.peer)};
    if (operation.has_sequence) record.flags |= NcclOperation::kHasSequence;
    if (operation.has_peer) record.flags |= NcclOperation::kHasPeer;
    if (bytes != 0) record.flags |= NcclOperation::kHasCount;
    log->put(record);
  }
  errno = error;
}

}  // namespace warpline::agent::nccl
