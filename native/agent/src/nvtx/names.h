// Names registered with NVTX: domains, strings, categories, threads, resources.
//
// All are kept until the process ends, in lock-free tables that only grow:
// another thread may use a handle at any time, and a fork continues to use its parent's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nvtx/abi.h"
#include "warpline_raw.h"

namespace warpline::agent {
class ThreadLog;
}

namespace warpline::agent::nvtx {

// A hash table of chains that only grow, at their heads. Entry has `Entry* next` and is never
// freed. Any thread, no locks.
template <class Entry, std::size_t kChains>
class GrowingTable {
  static_assert((kChains & (kChains - 1)) == 0);

 public:
  template <class IsSame>
  Entry* find(std::uint64_t hash, const IsSame& is_same) const noexcept {
    return search(chain(hash).load(std::memory_order_acquire), nullptr, is_same);
  }

  // Adds an entry unless an equal one exists; returns the entry in the table.
  template <class IsSame>
  Entry* add(std::uint64_t hash, Entry* entry, const IsSame& is_same) noexcept {
    std::atomic<Entry*>& head = chain(hash);
    Entry* seen = nullptr;
    Entry* first = head.load(std::memory_order_acquire);
    do {
      if (Entry* same = search(first, seen, is_same)) return same;
      seen = first;
      entry->next = first;
    } while (!head.compare_exchange_weak(first, entry, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
    return entry;
  }

  template <class Visit>
  void for_each(const Visit& visit) const noexcept {
    for (const std::atomic<Entry*>& head : chains_) {
      for (Entry* at = head.load(std::memory_order_acquire); at != nullptr; at = at->next) {
        visit(*at);
      }
    }
  }

 private:
  std::atomic<Entry*>& chain(std::uint64_t hash) noexcept { return chains_[hash & (kChains - 1)]; }
  const std::atomic<Entry*>& chain(std::uint64_t hash) const noexcept {
    return chains_[hash & (kChains - 1)];
  }
  template <class IsSame>
  static Entry* search(Entry* from, const Entry* until, const IsSame& is_same) noexcept {
    for (Entry* at = from; at != until && at != nullptr; at = at->next) {
      if (is_same(*at)) return at;
    }
    return nullptr;
  }

  std::atomic<Entry*> chains_[kChains] = {};
};

std::uint64_t hash_of(std::string_view bytes) noexcept;

// A text with process lifetime; the handle of a registered string.
struct RegisteredText {
  RegisteredText* next;
  std::uint32_t serial;  // from 1
  std::uint32_t bytes;
  char text[1];  // and more

  std::string_view view() const noexcept { return {text, bytes}; }
};

// Returns the interned copy of a text; nullptr if out of memory.
const RegisteredText* register_text(std::string_view text) noexcept;

// The handle of a domain. The default domain, nullptr in the API, has id 0.
struct Domain {
  Domain* next = nullptr;
  std::uint32_t id = 0;  // from 1
  const RegisteredText* name = nullptr;
  // The session that the answer of is_enabled is for, and the answer in the lowest bit.
  std::atomic<std::uintptr_t> answer{~std::uintptr_t{0}};

  std::string_view view() const noexcept {
    return name == nullptr ? std::string_view() : name->view();
  }
};

Domain& default_domain() noexcept;
inline Domain& domain_of(Domain* handle) noexcept {
  return handle == nullptr ? default_domain() : *handle;
}

// Returns the domain with a name; nullptr, the default domain, if out of memory.
Domain* create_domain(std::string_view name) noexcept;

// Whether the session records a domain's events. True without a session.
bool is_enabled(Domain& domain) noexcept;

// Names something, in this session's log and those of later ones, and in forks.
void name_category(Domain& domain, std::uint32_t category, std::string_view name) noexcept;
void name_thread(std::uint32_t tid, std::string_view name) noexcept;
void name_resource(std::uint32_t type, std::uint64_t identifier, std::string_view name) noexcept;

// Writes a note, once, about an NVTX function that is not recorded.
void note_once(raw::Note note, std::string_view text) noexcept;

// Writes all names so far to the first log of a process in a session. Returns whether this
// was it.
bool write_names(ThreadLog& log) noexcept;

// A text for the length of a call, as UTF-8. Short ones need no memory of the heap.
class Utf8Text {
 public:
  Utf8Text() noexcept {}
  ~Utf8Text();
  Utf8Text(const Utf8Text&) = delete;
  Utf8Text& operator=(const Utf8Text&) = delete;

  // Each returns the text, which this object keeps. Units end at a zero or after `most`; what is
  // not a character becomes U+FFFD.
  std::string_view from_wide(const wchar_t* units) noexcept;
  std::string_view from_utf16(const void* units, std::size_t most) noexcept;
  std::string_view from_utf32(const void* units, std::size_t most) noexcept;

 private:
  template <class Unit>
  std::string_view from_units(const void* units, std::size_t most) noexcept;

  char* heap_ = nullptr;
  char short_[1024];
};

// A program's text: never longer than a log takes, and a byte more so that the cut is seen.
std::string_view bounded(const char* text) noexcept;

}  // namespace warpline::agent::nvtx
