#include "python/remote_memory.h"

namespace warpline::sampler {

bool RemoteMemory::begin(Anchor* anchors, std::size_t anchor_count, const Pages& pages) noexcept {
  iovec here[kMostPages + 2 * kMostAnchors], there[kMostPages + 2 * kMostAnchors];
  std::size_t count = 0;
  const auto add = [&](void* room, std::uint64_t address, std::size_t bytes) {
    here[count] = {room, bytes};
    there[count++] = {reinterpret_cast<void*>(address), bytes};
  };
  const std::size_t words = anchor_count * sizeof anchors->before;
  for (std::size_t i = 0; i < anchor_count; ++i) add(&anchors[i].before, anchors[i].address, 8);
  for (std::size_t i = 0; i < pages.count; ++i) {
    add(copies_ + i * kPageBytes, pages.addresses[i], kPageBytes);
  }
  for (std::size_t i = 0; i < anchor_count; ++i) add(&anchors[i].after, anchors[i].address, 8);
  const ssize_t copied = process_vm_readv(pid_, here, count, there, count, 0);
  anchors_ = anchors;
  anchor_count_ = anchor_count;
  has_missed_ = false;
  used_.count = 0;
  pages_ = pages;
  if (copied == static_cast<ssize_t>(2 * words + pages.count * kPageBytes)) return true;
  // A page, or an anchor that was guessed, is gone.
  pages_.count = 0;
  has_missed_ = true;
  for (std::size_t i = 0; i < anchor_count; ++i) {
    if (!copy_from(pid_, anchors[i].address, &anchors[i].before, 8)) {
      anchor_count_ = i;
      return i != 0;
    }
    anchors[i].after = anchors[i].before;
  }
  return true;
}

void RemoteMemory::use(std::uint64_t page) noexcept {
  for (std::size_t i = used_.count; i-- > 0;) {
    if (used_.addresses[i] == page) return;
  }
  if (used_.count != kMostPages) used_.addresses[used_.count++] = page;
}

bool RemoteMemory::is_unmoved() const noexcept {
  for (std::size_t i = 0; i < anchor_count_; ++i) {
    const Anchor& anchor = anchors_[i];
    std::uint64_t now = anchor.after;
    if (has_missed_ && !copy_from(pid_, anchor.address, &now, sizeof now)) return false;
    if (anchor.before != now || anchor.before != anchor.after) return false;
  }
  return true;
}

const char* RemoteMemory::find(std::uint64_t address, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < anchor_count_ && bytes == sizeof anchors_->before; ++i) {
    if (anchors_[i].address == address) return reinterpret_cast<const char*>(&anchors_[i].before);
  }
  const std::uint64_t page = address & ~(kPageBytes - 1);
  if (address + bytes > page + kPageBytes) return nullptr;
  for (std::size_t i = 0; i < pages_.count; ++i) {
    if (pages_.addresses[i] != page) continue;
    use(page);
    return copies_ + i * kPageBytes + (address - page);
  }
  return nullptr;
}

const char* RemoteMemory::view_frame(std::uint64_t address, std::size_t bytes) noexcept {
  if (const char* copied = find(address, bytes)) return copied;
  const std::uint64_t page = address & ~(kPageBytes - 1);
  if (address + bytes > page + kPageBytes) {  // both pages in one copy, if they are there
    char* room = crossing_;
    const std::size_t low = page + kPageBytes - address;
    const char* first = find(address, low);
    const char* second = find(page + kPageBytes, bytes - low);
    if (first == nullptr || second == nullptr) {
      use(page);
      use(page + kPageBytes);
      has_missed_ = true;
      return copy_from(pid_, address, room, bytes) ? room : nullptr;
    }
    std::memcpy(room, first, low);
    std::memcpy(room + low, second, bytes - low);
    return room;
  }
  has_missed_ = true;
  use(page);
  if (pages_.count == kMostPages) {
    return copy_from(pid_, address, crossing_, bytes) ? crossing_ : nullptr;
  }
  char* copy = copies_ + pages_.count * kPageBytes;
  if (!copy_from(pid_, page, copy, kPageBytes)) return nullptr;
  pages_.addresses[pages_.count++] = page;
  return copy + (address - page);
}

void RemoteMemory::expect(const std::uint64_t* addresses, std::size_t count,
                          std::size_t bytes) noexcept {
  iovec there[stack::kMostExpected];
  for (std::size_t i = 0; i < count; ++i) {
    there[i] = {reinterpret_cast<void*>(addresses[i]), bytes};
  }
  const iovec here{expected_copies_, count * bytes};
  const ssize_t copied = process_vm_readv(pid_, &here, 1, there, count, 0);
  expected_ = copied < 0 ? 0 : static_cast<std::size_t>(copied) / bytes;
}

}  // namespace warpline::sampler
