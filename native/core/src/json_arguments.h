// Which arguments of the events are kept, found by their name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json_events.h"

namespace warpline {

class JsonArguments {
 public:
  static constexpr int32_t kUnwanted = -1;
  static constexpr int32_t kTooMany = -2;
  static constexpr std::size_t kMost = 1 << 12;

  JsonArguments(const std::vector<std::string> &wanted, bool all);

  // Returns the number of an argument in `events`, to which it is added if it is new; or
  // kUnwanted; or kTooMany: every argument is kept, and this would be one more than kMost.
  int32_t find(std::string_view name, JsonEvents &events);

 private:
  // What was found last for a name like this: most names come again and again.
  struct Recent {
    std::string name;
    int32_t found = kUnwanted;
    bool is_used = false;
  };

  int32_t look_up(std::string_view written, JsonEvents &events);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  static constexpr int32_t kNotMet = -3;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> known_;
  bool all_;
  std::array<Recent, 256> recent_;
};

}  // namespace warpline
