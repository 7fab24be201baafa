// Written from the DWARF standard's chapter on call frames and the Linux Standard Base's on
// .eh_frame_hdr. What compilers write for functions is understood, and the few expressions that are in
// common use: a stack pointer that was saved in memory, calls through the linkage table, and what a
// signal interrupted. Anything else is "unknown", and the walk ends there.
#include "stack/frame_rules.h"

#include <cstddef>
#include <cstring>

namespace warpline::stack {
namespace {

// Registers, as the x86-64 psABI numbers them for DWARF.
constexpr std::uint64_t kFramePointerRegister = 6;
constexpr std::uint64_t kStackPointerRegister = 7;
constexpr std::uint64_t kReturnAddressRegister = 16;

// How a pointer is written: its form in the low four bits, what it counts from in the next three.
constexpr std::uint8_t kAbsolute = 0x00;
constexpr std::uint8_t kFromHere = 0x10;
constexpr std::uint8_t kFromTable = 0x30;
constexpr std::uint8_t kOmitted = 0xff;
constexpr std::uint8_t kSearchTable = kFromTable | 0x0b;  // two signed 32-bit offsets an entry

// Reads a stretch of memory; what lies beyond its end reads as zero and makes it unsound.
class Bytes {
 public:
  Bytes(std::uint64_t at, std::uint64_t end, std::uint64_t absolute = 0) noexcept
      : at_(at), end_(end), absolute_(absolute) {}

  bool is_sound() const noexcept { return is_sound_; }
  bool has_more() const noexcept { return is_sound_ && at_ < end_; }
  std::uint64_t at() const noexcept { return at_; }

  template <class Number>
  Number read() noexcept {
    Number number{};
    if (is_sound_ && at_ <= end_ && end_ - at_ >= sizeof number) {
      std::memcpy(&number, reinterpret_cast<const void*>(at_), sizeof number);
      at_ += sizeof number;
    } else {
      is_sound_ = false;
    }
    return number;
  }

  void skip(std::uint64_t bytes) noexcept {
    is_sound_ = is_sound_ && at_ <= end_ && bytes <= end_ - at_;
    if (is_sound_) at_ += bytes;
  }

  // What follows, up to a length.
  Bytes take(std::uint64_t bytes) noexcept {
    const std::uint64_t from = at_;
    skip(bytes);
    return is_sound_ ? Bytes(from, from + bytes, absolute_) : Bytes(from, from);
  }

  std::uint64_t read_unsigned() noexcept {
    std::uint64_t number = 0;
    unsigned shift = 0;
    std::uint8_t byte;
    do {
      byte = read<std::uint8_t>();
      if (shift < 64) number |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
    } while ((byte & 0x80) != 0 && is_sound_);
    return number;
  }

  std::int64_t read_signed() noexcept {
    std::uint64_t number = 0;
    unsigned shift = 0;
    std::uint8_t byte;
    do {
      byte = read<std::uint8_t>();
      if (shift < 64) number |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
    } while ((byte & 0x80) != 0 && is_sound_);
    if (shift < 64 && (byte & 0x40) != 0) number |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(number);
  }

  std::uint64_t read_pointer(std::uint8_t encoding, std::uint64_t table) noexcept {
    const std::uint64_t here = at_;
    const std::uint64_t number = read_form(encoding & 0x0f);
    switch (encoding & 0x70) {
      case kAbsolute: return number + absolute_;
      case kFromHere: return here + number;
      case kFromTable: return table + number;
      default: is_sound_ = false; return 0;
    }
  }

  std::uint64_t read_form(std::uint8_t form) noexcept {
    switch (form) {
      case 0x00:
      case 0x04:
      case 0x0c: return read<std::uint64_t>();
      case 0x01: return read_unsigned();
      case 0x02: return read<std::uint16_t>();
      case 0x03: return read<std::uint32_t>();
      case 0x09: return static_cast<std::uint64_t>(read_signed());
      case 0x0a: return static_cast<std::uint64_t>(std::int64_t{read<std::int16_t>()});
      case 0x0b: return static_cast<std::uint64_t>(std::int64_t{read<std::int32_t>()});
      default: is_sound_ = false; return 0;
    }
  }

 private:
  std::uint64_t at_;
  std::uint64_t end_;
  std::uint64_t absolute_;  // added to absolute addresses: see ElfImage
  bool is_sound_ = true;
};

struct Stretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t absolute = 0;  // as of Bytes
  bool holds(std::uint64_t address) const noexcept { return begin <= address && address < end; }
};

// What is true of all functions that share an entry (a CIE).
struct Shared {
  std::uint64_t code_unit = 1;
  std::int64_t data_unit = 1;
  std::uint8_t pointer_encoding = kAbsolute;
  bool has_augmentation = false;
  bool is_signal = false;
  Bytes instructions{0, 0};
};

// Where a register was saved, from the caller's stack pointer.
struct Saved {
  bool is_saved = false;
  bool is_undefined = false;
  bool is_odd = false;  // in a way that is not followed
  bool is_at_frame_pointer = false;
  std::int64_t offset = 0;
};

// Where the caller's stack begins, as an expression gives it.
struct Expression {
  enum class Form : std::uint8_t { kNone, kOdd, kInMemory, kLinkage };
  Form form = Form::kNone;
  std::uint64_t base = 0;   // kInMemory: what lies at this register and offset, and
  std::int64_t offset = 0;  // kLinkage: from which place in its entry on there is one word more
  std::uint64_t add = 0;    // what is added to it
};

constexpr std::uint8_t kRegisterPlus = 0x70;  // DW_OP_breg0

// DW_OP_breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl, plus: linkers write it for .plt.
bool read_linkage(Bytes code, Expression& found) noexcept {
  if (code.read<std::uint8_t>() != kRegisterPlus + kStackPointerRegister) return false;
  if (code.read_signed() != 8) return false;
  if (code.read<std::uint8_t>() != kRegisterPlus + kReturnAddressRegister) return false;
  if (code.read_signed() != 0) return false;
  constexpr std::uint8_t kLiteral = 0x30, kMask = 0x3f, kAnd = 0x1a;
  if (code.read<std::uint8_t>() != kMask || code.read<std::uint8_t>() != kAnd) return false;
  const auto place = code.read<std::uint8_t>();
  constexpr std::uint8_t kRest[] = {0x2a, 0x33, 0x24, 0x22};
  for (const std::uint8_t operation : kRest) {
    if (code.read<std::uint8_t>() != operation) return false;
  }
  if (!code.is_sound() || place < kLiteral || place > kMask) return false;
  found = {Expression::Form::kLinkage, kStackPointerRegister, place - kLiteral, 0};
  return true;
}

Expression read_expression(Bytes code) noexcept {
  Expression found{Expression::Form::kOdd, 0, 0, 0};
  if (read_linkage(code, found)) return found;
  constexpr std::uint8_t kLoad = 0x06, kAdd = 0x23;
  const std::uint8_t base = code.read<std::uint8_t>();
  found.base = base - kRegisterPlus;
  found.offset = code.read_signed();
  if (code.read<std::uint8_t>() != kLoad) return found;
  if (code.has_more() && code.read<std::uint8_t>() == kAdd) found.add = code.read_unsigned();
  const bool is_known = found.base == kFramePointerRegister || found.base == kStackPointerRegister;
  if (is_known && code.is_sound() && !code.has_more()) found.form = Expression::Form::kInMemory;
  return found;
}

// Whether an expression says that a register was saved where the frame pointer points to.
bool is_at_frame_pointer(Bytes code) noexcept {
  const bool is_base = code.read<std::uint8_t>() == kRegisterPlus + kFramePointerRegister;
  return code.read_signed() == 0 && is_base && code.is_sound() && !code.has_more();
}

struct Row {
  std::uint64_t base = 0;  // a register
  std::int64_t offset = 0;
  Expression expression;  // instead
  Saved frame_pointer;
  Saved return_address;
  SavedRegisters others;

  Saved* of(std::uint64_t number) noexcept {
    if (number == kFramePointerRegister) return &frame_pointer;
    return number == kReturnAddressRegister ? &return_address : nullptr;
  }
  std::int16_t* other(std::uint64_t number) noexcept {
    if (number == 3) return others.at;
    return number >= 12 && number <= 15 ? others.at + (number - 11) : nullptr;
  }
};

std::int16_t words_of(const Saved& saved) noexcept {
  if (!saved.is_saved) return saved.is_odd || saved.is_undefined ? SavedRegisters::kLost : 0;
  const bool fits = saved.offset % 8 == 0 && saved.offset / 8 > INT16_MIN && saved.offset < 0;
  return fits ? static_cast<std::int16_t>(saved.offset / 8) : SavedRegisters::kLost;
}

// Runs the instructions of a function's entry up to one of its places.
class Program {
 public:
  Program(const Shared& shared, std::uint64_t begin, std::uint64_t place) noexcept
      : shared_(shared), at_(begin), place_(place) {}

  bool run(Bytes code, bool is_shared) noexcept {
    while (code.has_more() && at_ <= place_) {
      const auto byte = code.read<std::uint8_t>();
      if (!step(code, byte)) return false;
    }
    if (is_shared) first_ = row_;
    return code.is_sound();
  }

  const Row& row() const noexcept { return row_; }

 private:
  bool step(Bytes& code, std::uint8_t byte) noexcept {
    const std::uint8_t low = byte & 0x3f;
    switch (byte & 0xc0) {
      case 0x40: return advance(low);
      case 0x80: save(low, code.read_unsigned()); return true;
      case 0xc0: restore(low); return true;
      default: return low < 0x0c ? simple(code, low) : defining(code, low);
    }
  }

  bool simple(Bytes& code, std::uint8_t operation) noexcept {
    switch (operation) {
      case 0x00: return true;
      case 0x01: at_ = code.read_pointer(shared_.pointer_encoding, 0); return true;
      case 0x02: return advance(code.read<std::uint8_t>());
      case 0x03: return advance(code.read<std::uint16_t>());
      case 0x04: return advance(code.read<std::uint32_t>());
      case 0x05: {
        const std::uint64_t number = code.read_unsigned();
        save(number, code.read_unsigned());
        return true;
      }
      case 0x06: restore(code.read_unsigned()); return true;
      case 0x07: set(code.read_unsigned(), {.is_undefined = true}); return true;
      case 0x08: set(code.read_unsigned(), {}); return true;
      case 0x09: {
        const std::uint64_t number = code.read_unsigned();
        code.read_unsigned();
        set(number, {.is_odd = true});
        return true;
      }
      case 0x0a: return remember();
      default: return recall();
    }
  }

  bool defining(Bytes& code, std::uint8_t operation) noexcept {
    switch (operation) {
      case 0x0c:
      case 0x12:
        row_.base = code.read_unsigned();
        row_.expression = {};
        row_.offset = operation == 0x0c ? static_cast<std::int64_t>(code.read_unsigned())
                                        : code.read_signed() * shared_.data_unit;
        return true;
      case 0x0d: row_.base = code.read_unsigned(); return true;
      case 0x0e: row_.offset = static_cast<std::int64_t>(code.read_unsigned()); return true;
      case 0x13: row_.offset = code.read_signed() * shared_.data_unit; return true;
      case 0x0f:
        row_.expression = read_expression(code.take(code.read_unsigned()));
        return true;
      case 0x10: {
        const std::uint64_t number = code.read_unsigned();
        const bool is_there = is_at_frame_pointer(code.take(code.read_unsigned()));
        set(number, {.is_odd = !is_there, .is_at_frame_pointer = is_there});
        return true;
      }
      case 0x16: {
        const std::uint64_t number = code.read_unsigned();
        code.skip(code.read_unsigned());
        set(number, {.is_odd = true});
        return true;
      }
      case 0x11: {
        const std::uint64_t number = code.read_unsigned();
        set(number, {.is_saved = true, .offset = code.read_signed() * shared_.data_unit});
        return true;
      }
      case 0x2e: code.read_unsigned(); return true;  // size of arguments: of no use here
      default: return false;
    }
  }

  // Always true: whether the place was passed is seen before the next instruction.
  bool advance(std::uint64_t units) noexcept {
    at_ += units * shared_.code_unit;
    return true;
  }

  void save(std::uint64_t number, std::uint64_t units) noexcept {
    set(number, {.is_saved = true,
                 .offset = static_cast<std::int64_t>(units) * shared_.data_unit});
  }

  void set(std::uint64_t number, const Saved& saved) noexcept {
    if (Saved* found = row_.of(number)) *found = saved;
    if (std::int16_t* other = row_.other(number)) *other = words_of(saved);
  }

  void restore(std::uint64_t number) noexcept {
    if (Saved* found = row_.of(number)) *found = *first_.of(number);
    if (std::int16_t* other = row_.other(number)) *other = *first_.other(number);
  }

  bool remember() noexcept {
    if (depth_ == kDepth) return false;
    kept_[depth_++] = row_;
    return true;
  }

  bool recall() noexcept {
    if (depth_ == 0) return false;
    row_ = kept_[--depth_];
    return true;
  }

  static constexpr std::size_t kDepth = 8;

  const Shared& shared_;
  std::uint64_t at_;
  std::uint64_t place_;
  Row row_;
  Row first_;
  Row kept_[kDepth];
  std::size_t depth_ = 0;
};

// Reads the length of an entry. Returns what it holds.
Bytes open_entry(std::uint64_t at, const Stretch& bounds) noexcept {
  Bytes bytes(at, bounds.end, bounds.absolute);
  if (!bounds.holds(at)) return {0, 0};
  std::uint64_t length = bytes.read<std::uint32_t>();
  if (length == 0xffffffff) length = bytes.read<std::uint64_t>();
  return bytes.take(length);
}

bool read_augmentation(Bytes& bytes, const char* letters, Shared& shared) noexcept {
  shared.has_augmentation = true;
  Bytes data = bytes.take(bytes.read_unsigned());
  for (; *letters != '\0'; ++letters) {
    switch (*letters) {
      case 'L': data.read<std::uint8_t>(); break;
      case 'P': {
        const auto encoding = data.read<std::uint8_t>();
        data.read_form(encoding & 0x0f);
        break;
      }
      case 'R': shared.pointer_encoding = data.read<std::uint8_t>(); break;
      case 'B': break;
      case 'S': shared.is_signal = true; break;
      default: return false;
    }
  }
  return data.is_sound();
}

bool read_shared(std::uint64_t at, const Stretch& bounds, Shared& shared) noexcept {
  Bytes bytes = open_entry(at, bounds);
  if (bytes.read<std::uint32_t>() != 0) return false;
  const auto version = bytes.read<std::uint8_t>();
  char letters[8] = {};
  for (std::size_t count = 0;; ++count) {
    if (count == sizeof letters) return false;
    letters[count] = bytes.read<char>();
    if (letters[count] == '\0') break;
  }
  if (version != 1 && version != 3) return false;
  shared.code_unit = bytes.read_unsigned();
  shared.data_unit = bytes.read_signed();
  const std::uint64_t number =
      version == 1 ? bytes.read<std::uint8_t>() : bytes.read_unsigned();
  if (number != kReturnAddressRegister) return false;
  if (letters[0] == 'z' && !read_augmentation(bytes, letters + 1, shared)) return false;
  if (letters[0] != 'z' && letters[0] != '\0') return false;
  shared.instructions = bytes;
  return bytes.is_sound();
}

bool fits(std::int64_t offset) noexcept {
  return offset >= -FrameRule::kMostOffset && offset <= FrameRule::kMostOffset;
}

FrameRule rule_of(const Row& row) noexcept {
  if (row.return_address.is_undefined) return {.base = FrameRule::Base::kOutermost};
  const Saved& frame = row.frame_pointer;
  const bool is_plain = row.return_address.is_saved && row.return_address.offset == -8 &&
                        !frame.is_odd && fits(row.offset) && fits(frame.offset);
  if (!is_plain) return {};
  FrameRule rule;
  if (frame.is_saved) rule.frame_pointer = static_cast<std::int32_t>(frame.offset);
  rule.offset = static_cast<std::int32_t>(row.offset);
  const Expression& expression = row.expression;
  switch (expression.form) {
    case Expression::Form::kNone:
      if (row.base == kStackPointerRegister) rule.base = FrameRule::Base::kStackPointer;
      if (row.base == kFramePointerRegister) rule.base = FrameRule::Base::kFramePointer;
      break;
    case Expression::Form::kLinkage:
      rule.base = FrameRule::Base::kLinkage;
      rule.offset = static_cast<std::int32_t>(expression.offset);
      break;
    case Expression::Form::kInMemory: {
      const bool is_from_frame = expression.base == kFramePointerRegister;
      const bool is_known = fits(expression.offset) && expression.add % 8 == 0 &&
                            expression.add / 8 <= FrameRule::kMostAdded;
      if (!is_known) return {};
      rule.base = is_from_frame ? FrameRule::Base::kAtFramePointer
                                : FrameRule::Base::kAtStackPointer;
      rule.offset = static_cast<std::int32_t>(expression.offset);
      rule.added_words = static_cast<std::uint8_t>(expression.add / 8);
      break;
    }
    case Expression::Form::kOdd: return {};
  }
  // Only a frame that was aligned anew has its caller's frame pointer where its own points to.
  if (frame.is_at_frame_pointer != (rule.base == FrameRule::Base::kAtFramePointer)) return {};
  return rule;
}

// The entry of one function (an FDE) that the search table has named.
struct Entry {
  Shared shared;
  Stretch function;
  Bytes instructions{0, 0};
};

// Returns whether the entry is sound and of a place.
bool read_entry(std::uint64_t at, const Stretch& bounds, std::uint64_t place, Entry& entry) noexcept {
  Bytes bytes = open_entry(at, bounds);
  const std::uint64_t here = bytes.at();
  const auto back = bytes.read<std::uint32_t>();
  Shared& shared = entry.shared;
  if (back == 0 || !read_shared(here - back, bounds, shared)) return false;
  entry.function.begin = bytes.read_pointer(shared.pointer_encoding, 0);
  entry.function.end = entry.function.begin + bytes.read_form(shared.pointer_encoding & 0x0f);
  if (shared.has_augmentation) bytes.skip(bytes.read_unsigned());
  entry.instructions = bytes;
  return bytes.is_sound() && entry.function.holds(place);
}

FrameRule rule_of_entry(const Entry& entry, std::uint64_t place, SavedRegisters* saved) noexcept {
  if (entry.shared.is_signal) return {.base = FrameRule::Base::kSignal};
  Program program(entry.shared, entry.function.begin, place);
  if (!program.run(entry.shared.instructions, true)) return {};
  if (!program.run(entry.instructions, false)) return {};
  if (saved != nullptr) *saved = program.row().others;
  return rule_of(program.row());
}

struct TableEntry {
  std::int32_t begin;
  std::int32_t entry;
};

// Finds the function of a place in a module's search table. Returns its entry's address, or 0.
std::uint64_t find_entry(std::uint64_t table, const Stretch& bounds, std::uint64_t place) noexcept {
  Bytes bytes(table, bounds.end, bounds.absolute);
  const auto version = bytes.read<std::uint8_t>();
  const auto frames = bytes.read<std::uint8_t>();
  const auto counted = bytes.read<std::uint8_t>();
  const auto form = bytes.read<std::uint8_t>();
  if (version != 1 || counted == kOmitted || form != kSearchTable) return 0;
  bytes.read_pointer(frames, table);
  const std::uint64_t count = bytes.read_form(counted & 0x0f);
  const std::uint64_t first = bytes.at();
  if (!bytes.is_sound() || count > (bounds.end - first) / sizeof(TableEntry)) return 0;
  const auto entry_at = [first](std::uint64_t number) {
    TableEntry entry;
    std::memcpy(&entry, reinterpret_cast<const void*>(first + number * sizeof entry), sizeof entry);
    return entry;
  };
  const auto begin_of = [&](std::uint64_t number) {
    return table + static_cast<std::uint64_t>(std::int64_t{entry_at(number).begin});
  };
  std::uint64_t low = 0;
  std::uint64_t high = count;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (begin_of(middle) <= place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return 0;
  return table + static_cast<std::uint64_t>(std::int64_t{entry_at(low - 1).entry});
}

Stretch segment_with(const ElfImage& image, std::uint64_t address) noexcept {
  for (std::size_t i = 0; i < image.segment_count; ++i) {
    const Elf64_Phdr& segment = image.segments[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t begin = image.bias + segment.p_vaddr;
    const Stretch stretch{begin, begin + (image.is_file ? segment.p_filesz : segment.p_memsz),
                          image.is_file ? image.bias : 0};
    if (stretch.holds(address)) return stretch;
  }
  return {};
}

// Finds the entry of a place. Returns whether there is one.
bool find_entry_in(const ElfImage& image, std::uint64_t place, Entry& found) noexcept {
  for (std::size_t i = 0; i < image.segment_count; ++i) {
    const Elf64_Phdr& segment = image.segments[i];
    if (segment.p_type != PT_GNU_EH_FRAME) continue;
    const std::uint64_t table = image.bias + segment.p_vaddr;
    const Stretch bounds = segment_with(image, table);
    if (!bounds.holds(table)) return false;
    const std::uint64_t entry = find_entry(table, bounds, place);
    // The entries may lie in another segment than their search table.
    return entry != 0 && read_entry(entry, segment_with(image, entry), place, found);
  }
  return false;
}

}  // namespace

bool holds(const ElfImage& image, std::uint64_t place) noexcept {
  return segment_with(image, place).holds(place);
}

FrameRule frame_rule_in(const ElfImage& image, std::uint64_t place,
                        SavedRegisters* saved) noexcept {
  Entry entry;
  return find_entry_in(image, place, entry) ? rule_of_entry(entry, place, saved) : FrameRule{};
}

std::uint64_t function_begin_in(const ElfImage& image, std::uint64_t place) noexcept {
  Entry entry;
  return find_entry_in(image, place, entry) ? entry.function.begin : 0;
}

}  // namespace warpline::stack
