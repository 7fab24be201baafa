// Scans the text of a Chrome trace with several threads, with the result of one JsonScan.
//
// Blocks of the text are scanned ahead, each as if an event began at its first byte. What a block
// gave is taken over only if the scan of all before it ended exactly there, between two events, and
// if the block itself ended between two events without damage. Every other block is scanned again,
// in order: a wrong guess costs time and changes nothing.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "json_scan.h"

namespace warpline {

class JsonBlocks {
 public:
  // The arguments are those of JsonScan, and the size of blocks, 0: the usual one.
  JsonBlocks(const std::vector<std::string> &wanted, bool all, std::size_t memory_bytes,
             std::size_t block_bytes);
  ~JsonBlocks();
  JsonBlocks(const JsonBlocks &) = delete;
  JsonBlocks &operator=(const JsonBlocks &) = delete;

  // As those of JsonScan.
  bool feed(const char *bytes, std::size_t count);
  void finish();

  // Complete once finished.
  const JsonScan &scan() const { return scan_; }

 private:
  // A block that is scanned ahead.
  struct Ahead {
    Ahead(const std::vector<std::string> &wanted, std::size_t memory_bytes)
        : scan(wanted, false, memory_bytes) {}

    JsonScan scan;
    std::exception_ptr failure;
    std::thread thread;  // may not be there, if no more can be had
  };

  using Text = std::unique_ptr<char[]>;

  void end_block();
  void scan_ahead(Text text, std::size_t bytes);
  void merge_oldest();
  void merge_all();
  void scan_in_turn(const char *bytes, std::size_t count);

  JsonScan scan_;
  std::vector<std::string> wanted_;
  std::size_t memory_bytes_;
  std::size_t block_bytes_;
  std::size_t threads_;
  std::size_t wrong_guesses_ = 0;
  bool wants_more_ = true;
  Text room_;  // has what is not in a block yet
  std::size_t held_bytes_ = 0;
  std::deque<std::unique_ptr<Ahead>> ahead_;  // in the order of the text
};

}  // namespace warpline
