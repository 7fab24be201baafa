#include "nvtx/names.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "session/clock.h"
#include "session/process.h"
#include "session/thread_log.h"

namespace warpline::agent::nvtx {
namespace {

constexpr std::uint32_t kMaxNames = 1u << 16;  // more are written, but not for later sessions
constexpr std::size_t kTextChains = 1u << 14;
constexpr std::size_t kNameChains = 1u << 10;
constexpr std::size_t kDomainChains = 1u << 6;
constexpr std::size_t kMaxWideUnits = raw::kMaxTextBytes + 1;

// Something that was named: a category, a thread, a resource, or a note, which names itself.
struct Name {
  Name* next;
  raw::Kind kind;
  std::uint32_t aux;
  std::uint64_t first;
  Domain* domain;  // of a category
  std::atomic<const RegisteredText*> text;
};

// Constant-initialised: NVTX may call before this library's constructors have run.
constinit GrowingTable<RegisteredText, kTextChains> g_texts;
constinit GrowingTable<Domain, kDomainChains> g_domains;
constinit GrowingTable<Name, kNameChains> g_names;
constinit std::atomic<std::uint32_t> g_text_serials{0};
constinit std::atomic<std::uint32_t> g_domain_ids{0};
constinit std::atomic<std::uint32_t> g_name_count{0};
constinit std::atomic<std::uint64_t> g_names_written_in{0};  // a generation of the process
constinit Domain g_default_domain;

constexpr std::uint64_t kHashStart = 0xcbf29ce484222325u;
constexpr std::uint64_t kHashFactor = 0x100000001b3u;

bool write_name(ThreadLog& log, const Name& name) noexcept {
  const RegisteredText* text = name.text.load(std::memory_order_acquire);
  if (name.domain != nullptr && name.domain->id != 0 &&
      !log.define_domain(name.domain->id, name.domain->view())) {
    return false;
  }
  const bool is_note = name.kind == raw::Kind::kNote;  // its record has a time, not a key
  const std::uint64_t first = is_note ? static_cast<std::uint64_t>(now_ns()) : name.first;
  return log.define(name.kind, name.aux, first, text->view());
}

// Keeps a name for later sessions and forks. Returns whether it said something new.
bool keep_name(const Name& name, const RegisteredText* text) noexcept {
  const auto is_same = [&name](const Name& other) {
    const bool is_alike = other.kind == name.kind && other.aux == name.aux;
    return is_alike && other.first == name.first && other.domain == name.domain;
  };
  const std::uint64_t key[] = {static_cast<std::uint64_t>(name.kind), name.aux, name.first};
  const std::uint64_t hash = hash_of({reinterpret_cast<const char*>(key), sizeof key});
  if (Name* known = g_names.find(hash, is_same)) {
    return known->text.exchange(text, std::memory_order_acq_rel) != text;
  }
  if (g_name_count.load(std::memory_order_relaxed) >= kMaxNames) return true;
  auto* kept = new (std::nothrow) Name{nullptr, name.kind, name.aux, name.first, name.domain, text};
  if (kept == nullptr) return true;
  Name* in_table = g_names.add(hash, kept, is_same);
  if (in_table == kept) {
    g_name_count.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  delete kept;
  return in_table->text.exchange(text, std::memory_order_acq_rel) != text;
}

void add_name(const Name& name, const RegisteredText* text) noexcept {
  if (text == nullptr || !keep_name(name, text)) return;
  if (LogLease log = definition_log()) {
    if (write_names(*log)) return;  // this one too
    write_name(*log, {nullptr, name.kind, name.aux, name.first, name.domain, text});
  }
}

std::size_t put_utf8(char32_t character, char* to) noexcept {
  const auto byte = [](char32_t bits) {
    return static_cast<char>(static_cast<unsigned char>(bits));
  };
  if (character < 0x80) {
    to[0] = byte(character);
    return 1;
  }
  if (character < 0x800) {
    to[0] = byte(0xc0 | character >> 6);
    to[1] = byte(0x80 | (character & 0x3f));
    return 2;
  }
  if (character < 0x10000) {
    to[0] = byte(0xe0 | character >> 12);
    to[1] = byte(0x80 | (character >> 6 & 0x3f));
    to[2] = byte(0x80 | (character & 0x3f));
    return 3;
  }
  to[0] = byte(0xf0 | character >> 18);
  to[1] = byte(0x80 | (character >> 12 & 0x3f));
  to[2] = byte(0x80 | (character >> 6 & 0x3f));
  to[3] = byte(0x80 | (character & 0x3f));
  return 4;
}

// Units may lie anywhere in a program's structs.
template <class Unit>
Unit unit_at(const void* units, std::size_t at) noexcept {
  Unit unit;
  std::memcpy(&unit, static_cast<const char*>(units) + at * sizeof(Unit), sizeof unit);
  return unit;
}

constexpr bool is_surrogate(char32_t unit) { return unit >= 0xd800 && unit < 0xe000; }
constexpr char32_t kReplacement = 0xfffd;

// Reads the character at `at`, and moves past it.
template <class Unit>
char32_t next_character(const void* units, std::size_t& at, std::size_t count) noexcept {
  const char32_t unit = unit_at<Unit>(units, at++);
  if (sizeof(Unit) == 4) return is_surrogate(unit) || unit > 0x10ffff ? kReplacement : unit;
  if (!is_surrogate(unit)) return unit;
  if (unit >= 0xdc00 || at == count) return kReplacement;
  const char32_t low = unit_at<Unit>(units, at);
  if (low < 0xdc00 || low >= 0xe000) return kReplacement;
  ++at;
  return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
}

}  // namespace

std::uint64_t hash_of(std::string_view bytes) noexcept {
  std::uint64_t hash = kHashStart;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * kHashFactor;
  return hash ^ hash >> 32;
}

const RegisteredText* register_text(std::string_view text) noexcept {
  const auto is_same = [text](const RegisteredText& other) { return other.view() == text; };
  const std::uint64_t hash = hash_of(text);
  if (const RegisteredText* known = g_texts.find(hash, is_same)) return known;
  void* memory = std::malloc(sizeof(RegisteredText) + text.size());
  if (memory == nullptr) return nullptr;
  auto* entry = new (memory) RegisteredText{};
  entry->serial = g_text_serials.fetch_add(1, std::memory_order_relaxed) + 1;
  entry->bytes = static_cast<std::uint32_t>(text.size());
  std::memcpy(entry->text, text.data(), text.size());
  const RegisteredText* in_table = g_texts.add(hash, entry, is_same);
  if (in_table != entry) std::free(memory);  // its serial stays unused
  return in_table;
}

Domain& default_domain() noexcept { return g_default_domain; }

Domain* create_domain(std::string_view name) noexcept {
  const RegisteredText* text = register_text(name);
  if (text == nullptr) return nullptr;
  const auto is_same = [text](const Domain& other) { return other.name == text; };
  if (Domain* known = g_domains.find(text->serial, is_same)) return known;
  auto* domain = new (std::nothrow) Domain;
  if (domain == nullptr) return nullptr;
  domain->id = g_domain_ids.fetch_add(1, std::memory_order_relaxed) + 1;
  domain->name = text;
  Domain* in_table = g_domains.add(text->serial, domain, is_same);
  if (in_table != domain) delete domain;
  return in_table;
}

bool is_enabled(Domain& domain) noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  const auto key = reinterpret_cast<std::uintptr_t>(session);
  const std::uintptr_t answer = domain.answer.load(std::memory_order_relaxed);
  if ((answer & ~std::uintptr_t{1}) == key) [[likely]] return (answer & 1) != 0;
  const bool is_wanted =
      session == nullptr ||
      (session->config.nvtx && session->config.is_domain_enabled(domain.view()));
  domain.answer.store(key | static_cast<std::uintptr_t>(is_wanted), std::memory_order_relaxed);
  return is_wanted;
}

void name_category(Domain& domain, std::uint32_t category, std::string_view name) noexcept {
  add_name({nullptr, raw::Kind::kCategory, domain.id, category, &domain, nullptr},
           register_text(name));
}

void name_thread(std::uint32_t tid, std::string_view name) noexcept {
  add_name({nullptr, raw::Kind::kThreadName, tid, 0, nullptr, nullptr}, register_text(name));
}

void name_resource(std::uint32_t type, std::uint64_t identifier, std::string_view name) noexcept {
  add_name({nullptr, raw::Kind::kResourceName, type, identifier, nullptr, nullptr},
           register_text(name));
}

void note_once(raw::Note note, std::string_view text) noexcept {
  const RegisteredText* copy = register_text(text);
  if (copy == nullptr) return;
  add_name({nullptr, raw::Kind::kNote, static_cast<std::uint32_t>(note), copy->serial, nullptr,
            nullptr},
           copy);
}

bool write_names(ThreadLog& log) noexcept {
  const std::uint64_t now = g_process->generation.load(std::memory_order_acquire);
  if (g_names_written_in.load(std::memory_order_relaxed) == now) [[likely]] return false;
  if (g_names_written_in.exchange(now, std::memory_order_acq_rel) == now) return false;
  g_names.for_each([&log](const Name& name) { write_name(log, name); });
  return true;
}

Utf8Text::~Utf8Text() { std::free(heap_); }

template <class Unit>
std::string_view Utf8Text::from_units(const void* units, std::size_t most) noexcept {
  if (units == nullptr) return {};
  std::size_t count = 0;
  while (count < most && unit_at<Unit>(units, count) != 0) ++count;
  char* to = short_;
  if (count * 4 > sizeof short_) {
    std::free(heap_);
    heap_ = static_cast<char*>(std::malloc(count * 4));
    if (heap_ == nullptr) return {};
    to = heap_;
  }
  std::size_t bytes = 0;
  for (std::size_t at = 0; at < count;) {
    bytes += put_utf8(next_character<Unit>(units, at, count), to + bytes);
  }
  return {to, bytes};
}

std::string_view Utf8Text::from_wide(const wchar_t* units) noexcept {
  return from_units<wchar_t>(units, kMaxWideUnits);
}

std::string_view Utf8Text::from_utf16(const void* units, std::size_t most) noexcept {
  return from_units<char16_t>(units, most < kMaxWideUnits ? most : kMaxWideUnits);
}

std::string_view Utf8Text::from_utf32(const void* units, std::size_t most) noexcept {
  return from_units<char32_t>(units, most < kMaxWideUnits ? most : kMaxWideUnits);
}

std::string_view bounded(const char* text) noexcept {
  if (text == nullptr) return {};
  return {text, strnlen(text, raw::kMaxTextBytes + 1)};
}

}  // namespace warpline::agent::nvtx
