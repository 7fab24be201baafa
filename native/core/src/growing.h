// An array that grows to any size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

namespace warpline {

// Large blocks are moved by the system's page tables, not copied, so that growing never needs the
// memory twice, and room that is not used yet needs none.
template <typename Value>
class Growing {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  Growing() = default;
  Growing(const Growing &) = delete;
  Growing &operator=(const Growing &) = delete;
  Growing(Growing &&other) noexcept
      : values_(std::exchange(other.values_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        room_(std::exchange(other.room_, 0)) {}
  Growing &operator=(Growing &&other) noexcept {
    std::swap(values_, other.values_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
    return *this;
  }
  ~Growing() { std::free(values_); }

  void push(Value value) {
    if (size_ == room_) grow();
    values_[size_++] = value;
  }
  void push_back(const Value &value) { push(value); }  // as std::vector has it
  void clear() { size_ = 0; }
  void cut_to(std::size_t size) { size_ = std::min(size, size_); }
  Value &operator[](std::size_t place) { return values_[place]; }
  const Value &operator[](std::size_t place) const { return values_[place]; }
  const Value *data() const { return values_; }
  Value *begin() { return values_; }
  Value *end() { return values_ + size_; }
  const Value *begin() const { return values_; }
  const Value *end() const { return values_ + size_; }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(Value); }

 private:
  void grow() {
    const std::size_t room = room_ == 0 ? 16 : room_ * 2;
    void *larger = std::realloc(static_cast<void *>(values_), room * sizeof(Value));
    if (larger == nullptr) throw std::bad_alloc();
    values_ = static_cast<Value *>(larger);
    room_ = room;
  }

  Value *values_ = nullptr;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
};

}  // namespace warpline
