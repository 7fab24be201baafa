// One payload, decoded into named values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "raw/schema.h"
#include "raw/tables.h"

namespace warpline {

struct PayloadValue {
  std::string key;
  ValueKind kind = ValueKind::kInt;
  bool is_unsigned = false;
  uint64_t number = 0;  // kInt
  double real = 0;      // kReal
  std::string text;     // kText
  bool is_message = false;  // it names the event
};

// Where the layouts of the payload's domain are found; nullptr for what was not registered.
class Layouts {
 public:
  virtual ~Layouts() = default;
  virtual const RawSchema *schema(uint64_t id) = 0;
  virtual const RawEnum *enumeration(uint64_t id) = 0;
};

// What pointers in a payload pointed to, by their offset in it.
using Targets = std::map<uint32_t, std::string_view>;

// Returns the values of a payload. From the first byte on that does not fit the layout, the rest is
// one hexadecimal text.
std::vector<PayloadValue> decode_payload(Layouts &layouts, uint64_t schema, std::string_view payload,
                                         const Targets &targets);

}  // namespace warpline
