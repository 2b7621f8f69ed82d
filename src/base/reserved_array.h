// SPDX-License-Identifier: MIT
//
// An append-only array whose elements never move: address space for the largest size is reserved
// at once, memory is used as it fills. One thread appends and clears; others may read, without a
// lock, elements below size(), and such whose index reached them through a synchronising channel (a
// queue of trace chunks).
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "base/reserved_memory.h"

namespace shadowprof {

template <typename T>
class ReservedArray {
  static_assert(std::is_trivially_destructible_v<T>, "elements are dropped with their pages");

 public:
  explicit ReservedArray(size_t capacity)
      : data_(static_cast<T*>(reserve_memory_or_end(capacity * sizeof(T)))), capacity_(capacity) {}
  ~ReservedArray() { ::munmap(data_, capacity_ * sizeof(T)); }
  ReservedArray(const ReservedArray&) = delete;
  ReservedArray& operator=(const ReservedArray&) = delete;

  T& push_back(const T& value) {
    const size_t at = own_size();
    SP_CHECK(at < capacity_, "table of {} entries is full", capacity_);
    T& added = *new (data_ + at) T(value);
    set_size(at + 1);
    return added;
  }
  void append(std::span<const T> values) {
    const size_t at = own_size();
    SP_CHECK(values.size() <= capacity_ - at, "table of {} entries is full", capacity_);
    std::uninitialized_copy(values.begin(), values.end(), data_ + at);
    set_size(at + values.size());
  }
  // For what is looked up at random: fewer TLB misses. The first elements stay in small pages: a
  // small program has no others, and to clear a huge page takes a millisecond or more. Only a hint,
  // so failure is no error.
  void prefer_huge_pages() {
    constexpr size_t kSmall = size_t{2} << 20;
    const size_t bytes = capacity_ * sizeof(T);
    if (bytes > kSmall)
      ::madvise(reinterpret_cast<std::byte*>(data_) + kSmall, bytes - kSmall, MADV_HUGEPAGE);
  }
  // Forgets the elements; their memory is used again.
  void clear() { set_size(0); }
  // The same, and gives the memory back.
  void release() {
    clear();
    give_back_memory(data_, capacity_ * sizeof(T));
  }
  size_t size() const { return size_.load(std::memory_order_acquire); }
  size_t capacity() const { return capacity_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  std::span<const T> span() const { return {data_, size()}; }

 private:
  size_t own_size() const { return size_.load(std::memory_order_relaxed); }
  void set_size(size_t size) { size_.store(size, std::memory_order_release); }

  T* data_ = nullptr;
  std::atomic<size_t> size_{0};
  size_t capacity_;
};

}  // namespace shadowprof
