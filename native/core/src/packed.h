// Integers that take as few bytes each as the largest of them needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace warpline {

// A column that grows: of 1, 2, 4 or 8 bytes per value, all of the same size. When a value needs
// more, those before it are widened in place.
class Packed {
 public:
  Packed() = default;
  Packed(const Packed &) = delete;
  Packed &operator=(const Packed &) = delete;
  ~Packed() { std::free(bytes_); }

  void push(int64_t value) {
    while (!fits(value)) widen();
    if (size_ == room_) grow(room_ == 0 ? 16 : room_ * 2, value_bytes_);
    put(size_++, value);
  }
  void set(std::size_t place, int64_t value) {
    while (!fits(value)) widen();
    put(place, value);
  }
  void clear() { size_ = 0; }

  int64_t operator[](std::size_t place) const {
    switch (value_bytes_) {
      case 1:
        return get<int8_t>(place);
      case 2:
        return get<int16_t>(place);
      case 4:
        return get<int32_t>(place);
      default:
        return get<int64_t>(place);
    }
  }
  const void *data() const { return bytes_; }
  std::size_t size() const { return size_; }
  std::size_t value_bytes() const { return value_bytes_; }
  std::size_t bytes() const { return size_ * value_bytes_; }

 private:
  bool fits(int64_t value) const {
    const unsigned unused = 64 - 8 * static_cast<unsigned>(value_bytes_);
    return static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused == value;
  }

  template <typename Value>
  Value get(std::size_t place) const {
    Value value;
    std::memcpy(&value, bytes_ + place * sizeof value, sizeof value);
    return value;
  }
  template <typename Value>
  void put_as(std::size_t place, int64_t wide) {
    const auto value = static_cast<Value>(wide);
    std::memcpy(bytes_ + place * sizeof value, &value, sizeof value);
  }
  void put(std::size_t place, int64_t value) {
    switch (value_bytes_) {
      case 1:
        return put_as<int8_t>(place, value);
      case 2:
        return put_as<int16_t>(place, value);
      case 4:
        return put_as<int32_t>(place, value);
      default:
        return put_as<int64_t>(place, value);
    }
  }

  void widen() {
    const std::size_t narrow = value_bytes_;
    grow(room_, narrow * 2);
    for (std::size_t place = size_; place-- > 0;) {  // from the end: nothing is overwritten unread
      value_bytes_ = narrow;
      const int64_t value = (*this)[place];
      value_bytes_ = narrow * 2;
      put(place, value);
    }
    value_bytes_ = narrow * 2;
  }

  void grow(std::size_t room, std::size_t value_bytes) {
    if (room == 0) return;
    void *larger = std::realloc(static_cast<void *>(bytes_), room * value_bytes);
    if (larger == nullptr) throw std::bad_alloc();
    bytes_ = static_cast<char *>(larger);
    room_ = room;
  }

  char *bytes_ = nullptr;
  std::size_t value_bytes_ = 1;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
};

}  // namespace warpline
