#include "raw/layout.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "warpline_payload.h"

namespace warpline {

namespace {

constexpr int kMaxNesting = 8;
constexpr std::string_view kNoKey = "payload";

// The bytes do not have the layout that was declared.
struct Undecodable {
  bool is_told = false;  // their hexadecimal text is among the values
};

std::string hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    text += kDigits[static_cast<uint8_t>(byte) >> 4];
    text += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return text;
}

void append_utf8(std::string &text, uint32_t code) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  text += static_cast<char>(kFirst[more] | code >> (6 * more));
  for (int left = more - 1; left >= 0; --left) {
    text += static_cast<char>(0x80 | (code >> (6 * left) & 0x3f));
  }
}

// Turns code units of 1, 2 or 4 bytes into UTF-8, up to a zero.
std::string to_utf8(std::string_view raw, std::size_t unit) {
  std::string text;
  uint32_t high = 0;
  for (std::size_t at = 0; at + unit <= raw.size(); at += unit) {
    uint32_t code = 0;
    std::memcpy(&code, raw.data() + at, unit);
    if (code == 0) break;
    if (unit == 1) {
      text += static_cast<char>(code);
    } else if (unit == 2 && code >= 0xd800 && code < 0xdc00) {
      high = code;
    } else if (unit == 2 && high != 0 && code >= 0xdc00 && code < 0xe000) {
      append_utf8(text, 0x10000 + ((high & 0x3ff) << 10 | (code & 0x3ff)));
      high = 0;
    } else {
      append_utf8(text, code);
    }
  }
  return text;
}

double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double size = exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return (bits >> 15) != 0 ? -size : size;
}

bool is_signed(uint64_t type) {
  return type <= raw::kTypeInt64 && (type & 1) == 1;  // they alternate, signed first
}

void append_json(std::string &text, const PayloadValue &value) {
  char digits[32];
  if (value.kind == ValueKind::kText) {
    text += '"';
    for (const char byte : value.text) {
      if (byte == '"' || byte == '\\') text += '\\';
      if (static_cast<uint8_t>(byte) >= 0x20) {
        text += byte;
      } else {
        text += "\\u00" + hex(std::string_view(&byte, 1));
      }
    }
    text += '"';
  } else if (value.kind == ValueKind::kReal && !std::isfinite(value.real)) {
    text += std::isnan(value.real) ? "NaN" : value.real > 0 ? "Infinity" : "-Infinity";
  } else {
    const auto end = value.kind == ValueKind::kReal ? std::to_chars(digits, digits + 32, value.real)
                     : value.is_unsigned ? std::to_chars(digits, digits + 32, value.number)
                                         : std::to_chars(digits, digits + 32,
                                                         static_cast<int64_t>(value.number));
    const std::string_view number(digits, static_cast<std::size_t>(end.ptr - digits));
    text += number;
    // A real number stays one in JSON.
    const bool is_whole = number.find_first_of(".e") == std::string_view::npos;
    if (value.kind == ValueKind::kReal && is_whole) text += ".0";
  }
}

class Decoder {
 public:
  Decoder(Layouts &layouts, std::size_t budget) : layouts_(layouts), budget_(budget) {}

  std::vector<PayloadValue> take() { return std::move(values_); }

  // Decodes a structure from `start` on; returns where it ends.
  std::size_t structure(const RawSchema &schema, std::string_view payload, std::size_t start,
                        const std::string &prefix, int depth, const Targets &targets) {
    const bool is_union = schema.type == static_cast<uint32_t>(raw::SchemaType::kUnion) ||
                          schema.type ==
                              static_cast<uint32_t>(raw::SchemaType::kUnionInternalSelector);
    if (is_union || depth > kMaxNesting) throw Undecodable();
    std::vector<uint64_t> numbers;  // of the entries so far, for those that they count
    std::size_t position = start;
    for (const RawEntry &entry : schema.entries) {
      const std::size_t at = place(entry, start, position);
      const std::size_t before = values_.size();
      Spot spot{payload, at, prefix + entry.name, depth, &targets, &numbers};
      try {
        position = this->entry(entry, spot);
      } catch (const Undecodable &failure) {
        if (!failure.is_told) {
          values_.resize(before);
          text(spot.key, hex(payload.substr(std::min(at, payload.size()))));
        }
        throw Undecodable{true};
      }
      const bool has_number = values_.size() > before && values_[before].kind == ValueKind::kInt;
      numbers.push_back(has_number ? values_[before].number : last_number_);
      if ((entry.flags >> 10 & 3) == 1 && values_.size() > before) {
        values_[before].is_message = true;
      }
    }
    return position;
  }

  // Decodes what stands alone: one value of a predefined type, or as many as there are.
  void plain(uint64_t type, std::string_view payload) {
    const std::size_t size = raw::payload_type_bytes(type);
    if (size == 0) throw Undecodable();
    if (raw::is_string_type(type)) {
      text(std::string(kNoKey), to_utf8(payload, size));
      return;
    }
    const Targets none;
    RawEntry entry;
    entry.type = type;
    Spot spot{payload, 0, std::string(kNoKey), 0, &none, nullptr};
    if (payload.size() <= size) {
      scalar(entry, spot);
    } else {
      array(entry, spot, payload.size() / size, false);
    }
  }

  void text(std::string key, std::string content) {
    PayloadValue value;
    value.key = std::move(key);
    value.kind = ValueKind::kText;
    value.text = std::move(content);
    values_.push_back(std::move(value));
  }

 private:
  // Where a value stands and what it is called.
  struct Spot {
    std::string_view payload;
    std::size_t at;
    std::string key;
    int depth;
    const Targets *targets;
    const std::vector<uint64_t> *numbers;
  };

  std::size_t place(const RawEntry &entry, std::size_t start, std::size_t position) const {
    if (entry.offset != 0) {
      if (entry.offset > SIZE_MAX / 2) throw Undecodable();
      return start + entry.offset;
    }
    const std::size_t behind = position - start;
    return start + (behind + entry.align - 1) / entry.align * entry.align;
  }

  std::size_t entry(const RawEntry &entry, Spot &spot) {
    spend();
    last_number_ = 0;
    if (spot.at > spot.payload.size()) throw Undecodable();
    const bool is_elsewhere =
        (entry.flags & (raw::kEntryOffsetFromBase | raw::kEntryOffsetFromHere)) != 0;
    if (is_elsewhere) throw Undecodable();
    if (entry.type == raw::kTypeRegisteredString ||
        raw::is_string_pointer(entry.type, entry.flags, entry.detail)) {
      const std::string_view *target = target_of(spot);
      if (target != nullptr) text(spot.key, std::string(*target));
      return after(spot, sizeof(void *));
    }
    if ((entry.flags & raw::kEntryPointer) != 0) return pointer(entry, spot);
    if (raw::is_string_type(entry.type)) return inline_text(entry, spot);
    const uint64_t shape = entry.flags & raw::kEntryArrayMask;
    if (shape == 0) return scalar(entry, spot);
    return array(entry, spot, shape == raw::kEntryArrayZeroTerminated ? SIZE_MAX
                                                                      : length(entry, spot),
                 shape == raw::kEntryArrayZeroTerminated);
  }

  // What a pointer points to was copied behind the payload; what was not is left out.
  std::size_t pointer(const RawEntry &entry, const Spot &spot) {
    const std::size_t end = after(spot, sizeof(void *));
    const std::string_view *target = target_of(spot);
    if (target == nullptr) return end;
    const Targets none;
    RawEntry pointed = entry;
    pointed.flags &= ~raw::kEntryPointer;
    Spot there{*target, 0, spot.key, spot.depth, &none, spot.numbers};
    const std::size_t size = element_bytes(entry);
    if ((entry.flags & raw::kEntryArrayMask) == 0 || size == 0) {
      scalar(pointed, there);
    } else {
      array(pointed, there, target->size() / size, false);
    }
    return end;
  }

  std::size_t inline_text(const RawEntry &entry, const Spot &spot) {
    const std::size_t unit = raw::payload_type_bytes(entry.type);
    const uint64_t shape = entry.flags & raw::kEntryArrayMask;
    const std::string_view rest = spot.payload.substr(spot.at);
    const bool is_terminated = shape == raw::kEntryArrayZeroTerminated;
    std::size_t bytes = rest.size();
    if (is_terminated) {
      bytes = 0;
      while (bytes + unit <= rest.size() && !is_zero(rest.substr(bytes, unit))) bytes += unit;
      bytes = std::min(bytes + unit, rest.size());
    } else {
      const std::size_t count = length(entry, spot);
      if (count > rest.size() / unit) throw Undecodable();
      bytes = count * unit;
    }
    text(spot.key, to_utf8(rest.substr(0, bytes), unit));
    return spot.at + bytes;
  }

  static bool is_zero(std::string_view bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
  }

  std::size_t scalar(const RawEntry &entry, const Spot &spot) {
    const std::size_t size = raw::payload_type_bytes(entry.type);
    if (size != 0) {
      number(entry.type, bytes_at(spot, size), spot.key);
      return spot.at + size;
    }
    if (const RawEnum *named = layouts_.enumeration(entry.type)) {
      return enumerator(*named, spot);
    }
    const RawSchema *schema = layouts_.schema(entry.type);
    if (schema == nullptr) throw Undecodable();
    if (schema->type == static_cast<uint32_t>(raw::SchemaType::kUnion) ||
        schema->type == static_cast<uint32_t>(raw::SchemaType::kUnionInternalSelector)) {
      return member(*schema, entry, spot);
    }
    const std::size_t end = structure(*schema, spot.payload, spot.at, spot.key + ".",
                                      spot.depth + 1, *spot.targets);
    return std::max(end, spot.at + static_cast<std::size_t>(entry.bytes));
  }

  // The member of a union that an entry selects: one beside the union, or one in it.
  std::size_t member(const RawSchema &schema, const RawEntry &entry, const Spot &spot) {
    const bool is_inside =
        schema.type == static_cast<uint32_t>(raw::SchemaType::kUnionInternalSelector);
    uint64_t selected = 0;
    if (is_inside) {
      const auto selector = std::find_if(schema.entries.begin(), schema.entries.end(), [](auto &e) {
        return e.type == raw::kTypeUnionSelector;
      });
      if (selector == schema.entries.end() || selector->offset > spot.payload.size()) {
        throw Undecodable();
      }
      const std::size_t size = std::clamp<std::size_t>(selector->bytes, 1, 8);
      Spot there = spot;
      there.at += selector->offset;
      std::memcpy(&selected, bytes_at(there, size).data(), size);
    } else {
      selected = number_at(entry.detail, spot);
    }
    if (selected >= schema.entries.size() || spot.depth >= kMaxNesting) throw Undecodable();
    const RawEntry &chosen = schema.entries[selected];
    if (chosen.offset > spot.payload.size()) throw Undecodable();
    Spot there = spot;
    there.at += chosen.offset;
    there.key += "." + chosen.name;
    ++there.depth;
    const std::size_t end = this->entry(chosen, there);
    return std::max({end, spot.at + static_cast<std::size_t>(entry.bytes)});
  }

  std::size_t enumerator(const RawEnum &named, const Spot &spot) {
    const std::size_t size = named.bytes;
    if (size != 1 && size != 2 && size != 4 && size != 8) throw Undecodable();
    uint64_t value = 0;
    std::memcpy(&value, bytes_at(spot, size).data(), size);
    if (const auto name = named.name_of(value)) {
      last_number_ = value;
      text(spot.key, *name);
    } else {
      const int unused = static_cast<int>(64 - size * 8);
      add_int(spot.key, static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused),
              false);
    }
    return spot.at + size;
  }

  // Adds an array as one text of JSON.
  std::size_t array(const RawEntry &entry, const Spot &spot, std::size_t count,
                    bool is_terminated) {
    RawEntry element = entry;
    element.flags &= ~raw::kEntryArrayMask;
    std::string json = "[";
    std::size_t at = spot.at;
    const std::size_t first = values_.size();
    for (std::size_t number = 0; number < count; ++number) {
      spend();
      Spot there = spot;
      there.at = at;
      there.key.clear();
      const std::size_t end = this->element(element, there);
      if (end <= at || values_.size() == first) throw Undecodable();  // it would go on for ever
      at = end;
      const PayloadValue &head = values_[first];
      if (is_terminated && head.kind == ValueKind::kInt && head.number == 0) {
        values_.resize(first);
        break;
      }
      json += json.size() > 1 ? ", " : "";
      append_element(json, first);
      values_.resize(first);
    }
    text(spot.key, json + "]");
    return at;
  }

  std::size_t element(const RawEntry &entry, const Spot &spot) {
    try {
      return scalar(entry, spot);
    } catch (const Undecodable &) {
      throw Undecodable();  // the array as a whole is told
    }
  }

  void append_element(std::string &json, std::size_t first) const {
    if (values_.size() == first + 1 && values_[first].key.empty()) {
      append_json(json, values_[first]);
      return;
    }
    json += '{';
    for (std::size_t place = first; place < values_.size(); ++place) {
      PayloadValue name;
      name.kind = ValueKind::kText;
      name.text = values_[place].key.substr(std::min<std::size_t>(1, values_[place].key.size()));
      json += place > first ? ", " : "";
      append_json(json, name);
      json += ": ";
      append_json(json, values_[place]);
    }
    json += '}';
  }

  void number(uint64_t type, std::string_view raw, const std::string &key) {
    uint64_t bits = 0;
    switch (type) {
      case raw::kTypeInt128:
      case raw::kTypeUint128:
      case raw::kTypeFloat128:
        text(key, hex(raw));
        return;
      case raw::kTypeLongDouble: {
        long double wide = 0;
        std::memcpy(&wide, raw.data(), std::min(raw.size(), sizeof wide));
        add_real(key, static_cast<double>(wide));
        return;
      }
      default:
        std::memcpy(&bits, raw.data(), raw.size());
    }
    const auto narrow = [&](uint64_t word) {
      const auto low = static_cast<uint32_t>(word);
      float real = 0;
      std::memcpy(&real, &low, sizeof real);
      add_real(key, real);
    };
    switch (type) {
      case raw::kTypeFloat:
      case raw::kTypeFloat32:
      case raw::kTypeTf32:
        return narrow(bits);
      case raw::kTypeBfloat16:
        return narrow(bits << 16);
      case raw::kTypeFloat16:
        return add_real(key, from_half(static_cast<uint16_t>(bits)));
      case raw::kTypeDouble:
      case raw::kTypeFloat64: {
        double real = 0;
        std::memcpy(&real, &bits, sizeof real);
        return add_real(key, real);
      }
      default:
        break;
    }
    if (is_signed(type)) {
      const int unused = static_cast<int>(64 - raw.size() * 8);
      bits = static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
    }
    add_int(key, bits, !is_signed(type));
  }

  void add_int(const std::string &key, uint64_t number, bool is_unsigned) {
    PayloadValue value;
    value.key = key;
    value.is_unsigned = is_unsigned;
    value.number = number;
    values_.push_back(std::move(value));
  }

  void add_real(const std::string &key, double real) {
    PayloadValue value;
    value.key = key;
    value.kind = ValueKind::kReal;
    value.real = real;
    values_.push_back(std::move(value));
  }

  std::size_t length(const RawEntry &entry, const Spot &spot) const {
    const uint64_t shape = entry.flags & raw::kEntryArrayMask;
    if (shape == raw::kEntryArrayLengthPayload) throw Undecodable();
    const uint64_t count =
        shape == raw::kEntryArrayLengthIndex ? number_at(entry.detail, spot) : entry.detail;
    if (count > spot.payload.size()) throw Undecodable();
    return count;
  }

  static uint64_t number_at(uint64_t place, const Spot &spot) {
    if (spot.numbers == nullptr || place >= spot.numbers->size()) throw Undecodable();
    return (*spot.numbers)[place];
  }

  std::size_t element_bytes(const RawEntry &entry) {
    const std::size_t size = raw::payload_type_bytes(entry.type);
    if (size != 0) return size;
    if (const RawEnum *named = layouts_.enumeration(entry.type)) return named->bytes;
    return entry.bytes;
  }

  static const std::string_view *target_of(const Spot &spot) {
    const auto found = spot.targets->find(static_cast<uint32_t>(spot.at));
    return found == spot.targets->end() ? nullptr : &found->second;
  }

  static std::size_t after(const Spot &spot, std::size_t bytes) {
    bytes_at(spot, bytes);
    return spot.at + bytes;
  }

  static std::string_view bytes_at(const Spot &spot, std::size_t bytes) {
    if (spot.at > spot.payload.size() || bytes > spot.payload.size() - spot.at) {
      throw Undecodable();
    }
    return spot.payload.substr(spot.at, bytes);
  }

  // Structures may contain each other over and over: a payload has no more values than bytes.
  void spend() {
    if (budget_ == 0) throw Undecodable();
    --budget_;
  }

  Layouts &layouts_;
  std::size_t budget_;
  uint64_t last_number_ = 0;  // of an enumerator that is shown by its name
  std::vector<PayloadValue> values_;
};

}  // namespace

std::vector<PayloadValue> decode_payload(Layouts &layouts, uint64_t id, std::string_view payload,
                                         const Targets &targets) {
  std::size_t bytes = payload.size();
  for (const auto &[offset, target] : targets) bytes += target.size();
  Decoder decoder(layouts, bytes + 16);
  if (id == raw::kBlobReferenced) return {};
  const RawSchema *schema = layouts.schema(id);
  try {
    if (schema != nullptr) {
      decoder.structure(*schema, payload, 0, "", 0, targets);
    } else if (id < raw::kBlobReferenced) {
      decoder.plain(id, payload);
    } else {
      decoder.text(std::string(kNoKey), hex(payload));
    }
  } catch (const Undecodable &failure) {
    if (!failure.is_told) decoder.text(std::string(kNoKey), hex(payload));
  }
  return decoder.take();
}

}  // namespace warpline
