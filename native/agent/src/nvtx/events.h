// NVTX events, and writing them to a thread's log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nvtx/abi.h"
#include "nvtx/names.h"

namespace warpline::agent {
class ThreadLog;
}

namespace warpline::agent::nvtx {

// The arguments of a function that opens a range, ends one or sets a mark: one of five forms. The
// fifth is not NVTX's.
struct Given {
  enum class Form { kText, kWide, kAttributes, kPayloads, kRegistered };

  Form form;
  const void* data;
  std::size_t count = 0;       // of payloads
  std::int64_t sequence = -1;  // 0 or more: PyTorch's number at this time

  static Given text(const char* text) noexcept { return {Form::kText, text}; }
  static Given wide(const wchar_t* text) noexcept { return {Form::kWide, text}; }
  static Given registered(const RegisteredText* text, std::int64_t sequence) noexcept {
    return {Form::kRegistered, text, 0, sequence};
  }
  static Given attributes(const EventAttributes* attributes) noexcept {
    return {Form::kAttributes, attributes};
  }
  static Given payloads(const Payload* payloads, std::size_t count) noexcept {
    return {Form::kPayloads, payloads, count};
  }
};

// The same, decoded. Its texts belong to the program, so it is valid only during the call.
struct Event {
  Event(Domain& domain, const Given& given) noexcept;

  bool has_name = false;
  bool has_color = false;
  std::uint32_t serial = 0;  // of a registered string
  std::string_view name;
  std::uint32_t category = 0;
  std::uint32_t color = 0;
  std::int32_t value_type = kValueNone;
  std::uint64_t value = 0;
  std::int64_t sequence = -1;
  const Payload* payloads = nullptr;
  std::size_t payload_count = 0;
  Utf8Text converted;

  void set_name(const char* text) noexcept;
  void set_name(std::string_view text) noexcept;
  void set_name(const RegisteredText* text) noexcept;

 private:
  void read(const EventAttributes& attributes) noexcept;
};

// Any thread. Almost no overhead while the domain is disabled. push_range and
// pop_range return NVTX's nesting level: 0 for the outermost, negative if unknown.
void mark(Domain& domain, const Given& given) noexcept;
int push_range(Domain& domain, const Given& given) noexcept;
int pop_range(Domain& domain, const Given& end) noexcept;
std::uint64_t start_range(Domain& domain, const Given& given) noexcept;
void stop_range(Domain& domain, std::uint64_t id, const Given& end) noexcept;

// Applies payload fields about the event itself (its name, category, color).
void read_payload_attributes(Domain& domain, Event& event) noexcept;

// Writes the payloads of the last committed event.
void write_payloads(ThreadLog& log, Domain& domain, const Payload* payloads,
                    std::size_t count) noexcept;

}  // namespace warpline::agent::nvtx
