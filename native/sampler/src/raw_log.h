// A log of the session, about one process image: what the agent would write, written from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "warpline_raw.h"

namespace warpline::sampler {

// Of the process that a log is about.
struct LogFacts {
  std::uint32_t pid = 0;
  std::uint32_t ppid = 0;
  std::uint64_t incarnation = 0;  // when the image began, monotonic ns
  std::uint32_t forked_from_pid = 0;
  std::uint64_t forked_from_incarnation = 0;
  std::string executable;
};

// Records are collected in memory and appended to the file now and then, each time as a whole.
class RawLog {
 public:
  // Creates the file at the first record.
  RawLog(const std::string& folder, LogFacts facts);
  RawLog(const RawLog&) = delete;
  RawLog& operator=(const RawLog&) = delete;
  ~RawLog();

  template <class Record>
  void put(const Record& record) {
    const std::size_t words = record.words();
    std::uint64_t* room = add(words);
    record.write(room);
    room[0] = raw::header_word(Record::kKind, record.flags, words, record.aux());
    if (Record::kIsCounted) ++header_.records;
  }
  // A record with a tail of words, such as a Chain.
  void put_words(raw::Kind kind, std::uint64_t number, const std::uint64_t* words, std::size_t count);
  // A record with a text behind a word, such as a Module.
  void put_text(raw::Kind kind, std::uint64_t first, std::string_view text, std::uint32_t aux = 0);

  // Whether a chain was not yet written; it is noted as written.
  bool is_new_chain(raw::Kind kind, std::uint64_t number);

  // Appends to the file what was collected. Where there is no space, it is dropped and counted.
  void flush();
  // The process has ended.
  void end(std::uint64_t time_ns);

 private:
  std::uint64_t* add(std::size_t words);
  bool create();

  static constexpr std::size_t kKnownChains = 4096;

  std::string path_;
  raw::LogHeader header_{};
  bool is_created_ = false;
  bool is_broken_ = false;
  std::uint64_t flushed_records_ = 0;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> known_chains_;  // by their number; of two that share a place the later
};

}  // namespace warpline::sampler
