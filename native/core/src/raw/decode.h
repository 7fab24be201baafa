// Decodes one log of a raw session into its tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "raw/cuda.h"
#include "raw/log.h"
#include "raw/tables.h"

namespace warpline {

class RawDecoder {
 public:
  // `log` is the place in tables.logs of the file. Its incarnation is the process's, whatever its header
  // says: a log that was written from outside belongs to that of the agent. Throws as RawLog does.
  RawDecoder(RawTables &tables, std::size_t log, bool is_alive);

  // Decodes about `budget` bytes; false once the log is at its end.
  bool step(int64_t budget);
  int64_t position() const { return at_; }

 private:
  struct Domain {
    int32_t name = -1;
    std::vector<uint32_t> open;  // ranges, innermost last
  };

  bool decode(const uint64_t *record, std::size_t words);
  bool decode_text(const uint64_t *record, std::size_t words);
  bool decode_event(const uint64_t *record, std::size_t words);
  bool on_thread(const uint64_t *record, std::size_t words);
  bool on_thread_end(const uint64_t *record, std::size_t words);
  bool on_push(const uint64_t *record, std::size_t words);
  bool on_pop(const uint64_t *record, std::size_t words);
  bool on_start(const uint64_t *record, std::size_t words);
  bool on_stop(const uint64_t *record, std::size_t words);
  bool on_mark(const uint64_t *record, std::size_t words);
  bool on_payload(const uint64_t *record, std::size_t words);
  bool on_schema(const uint64_t *record, std::size_t words);
  bool on_window(const uint64_t *record, std::size_t words);
  bool on_dropped(const uint64_t *record, std::size_t words);
  bool on_clock(const uint64_t *record, std::size_t words);
  bool on_note(const uint64_t *record, std::size_t words);
  bool on_cuda(const uint64_t *record, std::size_t words);

  // Reads a kPush, kStart or kMark, and its time; false unless it is sound.
  template <typename Record>
  bool read_event(const uint64_t *record, std::size_t words, Record &event);
  template <typename Record>
  uint32_t label_of(const Record &event, bool is_start_end);
  template <typename Record>
  bool add_range(const Record &event, bool is_start_end);
  template <typename Record>
  void add_value(const Record &event);
  void add_number(std::string_view name, int32_t &key, uint64_t number);
  bool see_time(uint64_t word);
  void void_open(int64_t time_ns);
  void truncate_open(int64_t time_ns);
  void note_silence();
  void define_slot(uint32_t slot, int32_t text);
  int32_t text_of(uint32_t slot) const;
  template <typename Record>
  int32_t name_of(const Record &event) const;
  int32_t place_of(uint32_t domain, uint32_t category);
  Domain &domain_of(uint32_t domain);
  void damaged();
  void end();

  RawTables &tables_;
  std::size_t log_place_;
  RawLog log_;
  int32_t process_ = 0;
  std::optional<CudaDecoder> cuda_;
  uint32_t thread_ = 0;
  bool has_thread_ = false;
  bool is_done_ = false;
  int64_t at_ = 0;
  int64_t events_ = 0;
  int64_t now_ns_ = 0;    // of the last record with a time
  int64_t event_ns_ = 0;  // of the last event
  bool has_payloads_ = false;
  // What a payload that comes next belongs to.
  bool has_owner_ = false;
  Owner owner_kind_ = Owner::kRange;
  uint32_t owner_ = 0;
  uint32_t owner_domain_ = 0;
  std::vector<int32_t> slots_;                      // texts by slot
  std::unordered_map<uint32_t, int32_t> far_slots_;  // those beyond any that a program needs
  std::unordered_map<uint32_t, Domain> domains_;
  std::unordered_map<uint64_t, int32_t> places_;
  // Texts: what a value without a name is called, and PyTorch's numbers at both ends of a range.
  int32_t value_key_ = -1;
  int32_t sequence_key_ = -1;
  int32_t end_sequence_key_ = -1;
  uint64_t last_place_key_ = 0;
  int32_t last_place_ = -1;
  uint32_t last_domain_key_ = 0;
  Domain *last_domain_ = nullptr;
};

}  // namespace warpline
